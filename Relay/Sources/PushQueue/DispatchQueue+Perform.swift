package import Dispatch

extension DispatchQueue {
    /// Runs blocking code on this queue. The calling task is suspended meanwhile and blocks no thread of Swift's
    /// executor.
    package func perform<Value: Sendable, Failure: Error>(
        _ body: @escaping @Sendable () throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let result: Result<Value, Failure> = await withCheckedContinuation { continuation in
            self.async { continuation.resume(returning: Result { () throws(Failure) in try body() }) }
        }
        return try result.get()
    }
}
