import APNSBasics
import Synchronization

/// Buffers the elements of an asynchronous input for a bulk call.
///
/// A separate task pulls only as many elements as the call has room for. The call takes them without waiting.
///
/// The state is not generic, and the elements are in memory that this class manages. A user's module cannot specialise
/// this type, so with a generic state and an array, the runtime would look up types for each element.
final class BulkInput<Element: Sendable, Failure: Error>: Sendable {
    /// The result of `take`.
    enum Taken {
        case element
        /// No element has arrived yet.
        case later
        case end
    }

    private let state = Mutex(BulkInputState())

    deinit {
        self.state.withLock { state in
            if let elements = Self.elements(of: state) {
                (elements + state.position).deinitialize(count: state.count)
                elements.deallocate()
            }
        }
    }

    private static func elements(of state: BulkInputState) -> UnsafeMutablePointer<Element>? {
        state.elements?.assumingMemoryBound(to: Element.self)
    }

    /// Starts pulling from `rows`.
    ///
    /// - Parameter onArrival: called when an element arrives, and at the end.
    func start<Rows: AsyncSequence & Sendable>(_ rows: Rows, onArrival: @escaping @Sendable () -> Void)
    where Rows.Element == Element, Rows.Failure == Failure {
        self.state.withLock { state in
            guard state.task == nil, !state.isClosed else { return }
            state.onArrival = onArrival
            state.task = Task { @concurrent in
                do throws(Failure) {
                    var iterator = rows.makeAsyncIterator()
                    while await self.isWanted(), let element = try await iterator.next(isolation: nil) {
                        self.put(element)
                    }
                    self.finish(nil)
                } catch {
                    self.finish(error)
                }
            }
        }
    }

    /// Takes the next element if one has arrived.
    ///
    /// - Parameters:
    ///   - room: the number of elements that the call can take now, including this one.
    ///   - place: where to put it. The memory must not be initialized.
    func take(room: Int, into place: UnsafeMutablePointer<Element>) -> Taken {
        let (taken, pump) = self.state.withLock { state -> (Taken, OneShot<Bool>?) in
            if state.count > 0, let elements = Self.elements(of: state) {
                place.moveInitialize(from: elements + state.position, count: 1)
                state.count -= 1
                state.position = state.count == 0 ? 0 : state.position + 1
                return (.element, nil)
            }
            state.demand = state.isClosed ? 0 : max(room, 1)
            return (state.isOver ? .end : .later, state.demand > 0 ? state.pump.take() : nil)
        }
        pump?.give(true)
        return taken
    }

    /// Stops pulling. Elements that have arrived can still be taken.
    func close() {
        let (pump, task) = self.state.withLock { state in
            state.isClosed = true
            if state.task == nil { state.isOver = true }
            return (state.pump.take(), state.task)
        }
        task?.cancel()
        pump?.give(false)
    }

    /// The input's error, once all elements before it have been taken.
    var failure: Failure? { self.state.withLock { $0.failure } as? Failure }

    /// Whether the input ended by itself, without an error and before it was closed.
    var isFinished: Bool { self.state.withLock { $0.isFinished } }

    // MARK: The task that pulls

    private func isWanted() async -> Bool {
        if let isWanted = self.state.withLock({ $0.isWanted }) { return isWanted }
        let pump = OneShot<Bool>()
        let isWanted = self.state.withLock { state in
            if state.isWanted == nil { state.pump = pump }
            return state.isWanted
        }
        if let isWanted { return isWanted }
        return await pump.wait()
    }

    private func put(_ element: Element) {
        let onArrival = self.state.withLock { state -> (@Sendable () -> Void)? in
            if state.position + state.count == state.capacity { Self.makeRoom(&state) }
            guard let elements = Self.elements(of: state) else { return nil }
            (elements + state.position + state.count).initialize(to: element)
            state.count += 1
            state.demand -= 1
            return state.count == 1 ? state.onArrival : nil
        }
        onArrival?()
    }

    /// Moves the elements to the beginning of the memory, or to more memory if more than half of it is in use.
    private static func makeRoom(_ state: inout BulkInputState) {
        let old = self.elements(of: state)
        if let old, state.count <= state.capacity / 2 {
            old.moveInitialize(from: old + state.position, count: state.count)
        } else {
            state.capacity = max(64, state.capacity * 2)
            let new = UnsafeMutablePointer<Element>.allocate(capacity: state.capacity)
            if let old {
                new.moveInitialize(from: old + state.position, count: state.count)
                old.deallocate()
            }
            state.elements = UnsafeMutableRawPointer(new)
        }
        state.position = 0
    }

    private func finish(_ error: Failure?) {
        let onArrival = self.state.withLock { state in
            state.isOver = true
            // A cancellation that follows from `close()` is not an error of the input.
            if !state.isClosed {
                state.failure = error
                state.isFinished = error == nil
            }
            defer { state.onArrival = nil }
            return state.onArrival
        }
        onArrival?()
    }
}

/// `@unchecked Sendable`: its memory belongs to one `BulkInput`, which reaches it only while it holds the lock, and the
/// elements in it are `Sendable`.
private struct BulkInputState: @unchecked Sendable {
    /// The memory of the elements that have arrived.
    var elements: UnsafeMutableRawPointer?
    var capacity = 0
    /// The first element, and how many there are.
    var position = 0
    var count = 0
    /// The number of further elements for which the call has room.
    var demand = 0
    var isClosed = false
    var isOver = false
    var isFinished = false
    var failure: (any Error)?
    /// The task that pulls, while it waits until another element is wanted. Resumed with `isWanted`.
    var pump: OneShot<Bool>?
    var task: Task<Void, Never>?
    var onArrival: (@Sendable () -> Void)?

    /// Whether to pull another element; nil to wait until the call has room or closes the input.
    var isWanted: Bool? { self.isClosed ? false : self.demand > 0 ? true : nil }
}
