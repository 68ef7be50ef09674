import Synchronization

/// An asynchronous sequence of events for one reader. It never fails and never blocks publishers.
///
/// The reader's buffer is bounded: a reader that is too slow misses the oldest events, and ``missedCount`` counts them.
///
/// The buffer fills from the moment the stream is created, so events that occur before the loop begins are kept too.
/// The sequence ends when its publisher has finished or when a reading task is cancelled. Two loops over one stream
/// share its events; create one stream per loop.
public struct EventStream<Element: Sendable>: AsyncSequence, Sendable {
    public typealias Failure = Never
    public typealias AsyncIterator = AsyncStream<Element>.Iterator

    fileprivate let events: AsyncStream<Element>
    fileprivate let publisher: Publisher

    /// The publishing end of one stream.
    fileprivate final class Publisher: Sendable {
        let continuation: AsyncStream<Element>.Continuation
        let missed = Atomic<Int>(0)

        init(_ continuation: AsyncStream<Element>.Continuation) {
            self.continuation = continuation
        }

        func post(_ element: Element) {
            guard case .dropped = self.continuation.yield(element) else { return }
            self.missed.wrappingAdd(1, ordering: .relaxed)
        }
    }

    public func makeAsyncIterator() -> AsyncIterator { self.events.makeAsyncIterator() }

    /// How many events this reader has missed because its buffer was full.
    public var missedCount: Int { self.publisher.missed.load(ordering: .relaxed) }
}

/// Publishes events to any number of readers. A reader is removed after its stream and all its iterators have been
/// released, or when its task is cancelled.
package final class EventHub<Element: Sendable>: Sendable {
    private typealias Publisher = EventStream<Element>.Publisher

    private struct State {
        var publishers: [Int: Publisher] = [:]
        var last = 0
        var isFinished = false
    }

    private let state = Mutex(State())

    package init() {}

    /// Publishes an event. Never blocks, and may be called from any thread.
    package func post(_ element: Element) {
        for publisher in self.state.withLock({ $0.publishers.values }) { publisher.post(element) }
    }

    /// Ends all streams: current readers end after the events in their buffers, and later streams end immediately.
    package func finish() {
        let publishers = self.state.withLock { state in
            state.isFinished = true
            return state.publishers.values
        }
        for publisher in publishers { publisher.continuation.finish() }
    }

    /// Makes a stream for one reader.
    ///
    /// - Parameter bufferingNewest: How many unread events the stream keeps, at least 1.
    package func stream(bufferingNewest: Int) -> EventStream<Element> {
        let (events, continuation) = AsyncStream.makeStream(
            of: Element.self,
            bufferingPolicy: .bufferingNewest(max(1, bufferingNewest))
        )
        let publisher = Publisher(continuation)
        let number = self.state.withLock { state in
            state.last += 1
            if !state.isFinished { state.publishers[state.last] = publisher }
            return state.isFinished ? nil : state.last
        }
        if let number {
            // Also called at once if the stream has ended meanwhile.
            continuation.onTermination = { [weak self] _ in _ = self?.state.withLock { $0.publishers[number] = nil } }
        } else {
            continuation.finish()
        }
        return EventStream(events: events, publisher: publisher)
    }

    /// For tests: the current number of readers.
    var readerCount: Int { self.state.withLock { $0.publishers.count } }
}
