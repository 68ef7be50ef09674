import APNSBasics
import DequeModule
import Synchronization

/// An asynchronous sequence of events for one reader. It never fails and never blocks publishers.
///
/// The reader's buffer is bounded: a reader that is too slow misses the oldest events, and ``missedCount`` counts them.
///
/// The buffer fills from the moment the stream is created, so events that occur before the loop begins are kept too.
/// The sequence ends when its publisher has finished or when the reading task is cancelled. Two loops over one stream
/// share its events; create one stream per loop.
public struct EventStream<Element: Sendable>: AsyncSequence, Sendable {
    public typealias Failure = Never

    public struct AsyncIterator: AsyncIteratorProtocol {
        let reader: EventReader<Element>

        public mutating func next() async -> Element? {
            await self.reader.next()
        }

        public mutating func next(isolation actor: isolated (any Actor)?) async -> Element? {
            await self.reader.next()
        }
    }

    let reader: EventReader<Element>

    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(reader: self.reader)
    }

    /// How many events this reader has missed because its buffer was full.
    public var missedCount: Int { self.reader.missedCount }
}

/// Publishes events to any number of readers. It does not retain them: a reader is removed after its stream and all its
/// iterators have been released.
package final class EventHub<Element: Sendable>: Sendable {
    private struct Weak: Sendable {
        weak let reader: EventReader<Element>?
    }

    private struct State {
        var readers: [Weak] = []
        var isFinished = false
    }

    private let state = Mutex(State())

    package init() {}

    /// Publishes an event. Never blocks, and may be called from any thread.
    package func post(_ element: Element) {
        for reader in self.readers() { reader.reader?.offer(element) }
    }

    /// Ends all streams: current readers end after the events in their buffers, and later streams end immediately.
    package func finish() {
        let readers = self.state.withLock { state in
            defer { state.readers = [] }
            state.isFinished = true
            return state.readers
        }
        for reader in readers { reader.reader?.finish() }
    }

    /// Makes a stream for one reader.
    ///
    /// - Parameter bufferingNewest: How many unread events the stream keeps, at least 1.
    package func stream(bufferingNewest: Int) -> EventStream<Element> {
        let reader = EventReader<Element>(room: max(1, bufferingNewest))
        let isFinished = self.state.withLock { state in
            if !state.isFinished {
                state.readers.removeAll { $0.reader == nil }
                state.readers.append(Weak(reader: reader))
            }
            return state.isFinished
        }
        if isFinished { reader.finish() }
        return EventStream(reader: reader)
    }

    /// The current number of readers.
    package var readerCount: Int {
        self.readers().count { $0.reader != nil }
    }

    private func readers() -> [Weak] {
        self.state.withLock { $0.readers }
    }
}

/// The buffer of one reader.
final class EventReader<Element: Sendable>: Sendable {
    private struct State {
        var buffer: Deque<Element> = []
        var missed = 0
        var isFinished = false
        /// The `next()` calls that wait, oldest first.
        var waiting: Deque<OneShot<Element?>> = []
    }

    private let state = Mutex(State())
    private let room: Int

    init(room: Int) {
        self.room = room
    }

    var missedCount: Int { self.state.withLock { $0.missed } }

    func offer(_ element: Element) {
        while true {
            let waiting = self.state.withLock { state -> OneShot<Element?>? in
                if let first = state.waiting.popFirst() { return first }
                if state.buffer.count >= self.room {
                    state.buffer.removeFirst()
                    state.missed += 1
                }
                state.buffer.append(element)
                return nil
            }
            // A call that was cancelled takes no element.
            guard let waiting, !waiting.give(element) else { return }
        }
    }

    func finish() {
        let waiting = self.state.withLock { state in
            defer { state.waiting = [] }
            state.isFinished = true
            return state.waiting
        }
        for reader in waiting { reader.give(nil) }
    }

    func next() async -> Element? {
        if Task.isCancelled { return nil }
        let waiting = OneShot<Element?>()
        let result = self.state.withLock { state -> Element?? in
            if let element = state.buffer.popFirst() { return element }
            if state.isFinished { return .some(nil) }
            state.waiting.append(waiting)
            return nil
        }
        if let result { return result }
        guard let element = await waiting.wait(orCancelled: nil) else {
            self.state.withLock { $0.waiting.removeAll { $0 === waiting } }
            return nil
        }
        return element
    }
}
