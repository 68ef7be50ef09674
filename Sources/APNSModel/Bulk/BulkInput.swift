import Synchronization

/// Elements of an asynchronous input on their way to a bulk call. A task of its own pulls them, only as many as the call
/// has room for; the call takes them without waiting.
final class BulkInput<Element: Sendable, Failure: Error>: Sendable {
    private struct State {
        var elements: [Element] = []
        var position = 0
        /// How many more elements the call has room for.
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
    /// - Parameter onArrival: called when an element is there, and at the end.
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

    /// The next element, if it is there.
    ///
    /// - Parameter room: how many elements the call would take now, this one included.
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

    /// Nothing more is pulled; what is here already can still be taken.
    func close() {
        let (pump, task) = self.state.withLock { state in
            state.isClosed = true
            if state.task == nil { state.isOver = true }
            return (state.pump.take(), state.task)
        }
        task?.cancel()
        pump?.resume(returning: false)
    }

    /// What the input threw, once all its elements have been taken.
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
            // That a closed input was cancelled is no failure of it.
            if !state.isClosed { state.failure = error }
            defer { state.onArrival = nil }
            return state.onArrival
        }
        onArrival?()
    }
}
