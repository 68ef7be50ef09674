import Dispatch
import Synchronization

/// Runs async work to its end while the calling thread sleeps.
///
/// An async `main` would not do: it turns the main thread into libdispatch's signal thread, and valgrind, which counts
/// the instructions of a push (`make bench-instructions`), cannot run that.
func blocking<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) throws -> Value {
    let done = DispatchSemaphore(value: 0)
    let result = ResultBox<Value>()
    Task.detached {
        do {
            result.set(.success(try await work()))
        } catch {
            result.set(.failure(error))
        }
        done.signal()
    }
    done.wait()
    return try result.take().get()
}

private final class ResultBox<Value: Sendable>: Sendable {
    private let result = Mutex<Result<Value, any Error>?>(nil)

    func set(_ value: Result<Value, any Error>) {
        self.result.withLock { $0 = value }
    }

    func take() -> Result<Value, any Error> {
        guard let value = self.result.withLock({ $0 }) else { return .failure(UsageError("no result")) }
        return value
    }
}
