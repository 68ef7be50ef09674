import Dispatch

/// Runs code that blocks, such as the start of a server, on a thread of its own. Swift's tasks share as many threads as there
/// are cores, and two blocked ones can stop all tests.
package func blocking<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        DispatchQueue.global().async { continuation.resume(with: Result { try body() }) }
    }
}
