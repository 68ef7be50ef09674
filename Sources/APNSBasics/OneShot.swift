import Synchronization

/// A value that a task waits for and that is given once, by whoever comes first.
///
/// Safe to cancel by construction: a value that is given before the wait begins is kept, so a cancellation handler can
/// give one at any time. Code that parks a task uses this type instead of a continuation.
package final class OneShot<Value: Sendable>: Sendable {
    private enum State {
        case waiting([CheckedContinuation<Value, Never>])
        case given(Value)
    }

    private let state = Mutex(State.waiting([]))

    package init() {}

    /// Gives the value. Only the first call has an effect.
    ///
    /// - Returns: Whether this was the first call.
    @discardableResult
    package func give(_ value: Value) -> Bool {
        let waiters = self.state.withLock { state -> [CheckedContinuation<Value, Never>]? in
            guard case .waiting(let waiters) = state else { return nil }
            state = .given(value)
            return waiters
        }
        guard let waiters else { return false }
        for waiter in waiters { waiter.resume(returning: value) }
        return true
    }

    /// Waits for the value, even if the task is cancelled.
    package func wait() async -> Value {
        await withCheckedContinuation { continuation in
            let value = self.state.withLock { state -> Value? in
                switch state {
                case .given(let value):
                    return value
                case .waiting(let waiters):
                    state = .waiting(waiters + [continuation])
                    return nil
                }
            }
            if let value { continuation.resume(returning: value) }
        }
    }

    /// Waits for the value.
    ///
    /// - Parameter onCancel: Called when the task is cancelled, even before the wait begins. It must ensure that a value
    ///   is given.
    package func wait(onCancel: @Sendable () -> Void) async -> Value {
        await withTaskCancellationHandler {
            await self.wait()
        } onCancel: {
            onCancel()
        }
    }

    /// Waits for the value. A cancellation of the task gives this value.
    package func wait(orCancelled value: Value) async -> Value {
        await self.wait { self.give(value) }
    }
}
