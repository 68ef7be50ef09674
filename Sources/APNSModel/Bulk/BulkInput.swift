import Synchronization

/// Buffers the elements of an asynchronous input for a bulk call.
///
/// A separate task pulls only as many elements as the call has room for. The call takes them without waiting.
final class BulkInput<Element: Sendable, Failure: Error>: Sendable {
    private struct State {
        var elements: [Element] = []
        var position = 0
        /// The number of further elements for which the call has room.
        var demand = 0
        var isClosed = false
        var isOver = false
        var failure: Failure?
        var pump: CheckedContinuation<Bool, Never>?
        var task: Task<Void, Never>?
        var onArrival: (@Sendable () -> Void)?
    }

    private let state = Mutex(State())

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
    /// - Parameter room: the number of elements that the call can take now, including this one.
    func take(room: Int) -> (element: Element?, isOver: Bool) {
        let (element, isOver, pump) = self.state.withLock { state in
            if state.position < state.elements.count {
                let element = state.elements[state.position]
                state.position += 1
                if state.position == state.elements.count {
                    state.elements.removeAll(keepingCapacity: true)
                    state.position = 0
                }
                return (Element?.some(element), false, CheckedContinuation<Bool, Never>?.none)
            }
            state.demand = state.isClosed ? 0 : max(room, 1)
            return (nil, state.isOver, state.demand > 0 ? state.pump.take() : nil)
        }
        pump?.resume(returning: true)
        return (element, isOver)
    }

    /// Stops pulling. Elements that have arrived can still be taken.
    func close() {
        let (pump, task) = self.state.withLock { state in
            state.isClosed = true
            if state.task == nil { state.isOver = true }
            return (state.pump.take(), state.task)
        }
        task?.cancel()
        pump?.resume(returning: false)
    }

    /// The input's error, once all elements before it have been taken.
    var failure: Failure? { self.state.withLock { $0.failure } }

    // MARK: The task that pulls

    private func isWanted() async -> Bool {
        await withCheckedContinuation { continuation in
            let result: Bool? = self.state.withLock { state in
                if state.isClosed { return false }
                if state.demand > 0 { return true }
                state.pump = continuation
                return nil
            }
            if let result { continuation.resume(returning: result) }
        }
    }

    private func put(_ element: Element) {
        let onArrival = self.state.withLock { state in
            state.elements.append(element)
            state.demand -= 1
            return state.elements.count - state.position == 1 ? state.onArrival : nil
        }
        onArrival?()
    }

    private func finish(_ error: Failure?) {
        let onArrival = self.state.withLock { state in
            state.isOver = true
            // A cancellation that follows from `close()` is not an error of the input.
            if !state.isClosed { state.failure = error }
            defer { state.onArrival = nil }
            return state.onArrival
        }
        onArrival?()
    }
}
