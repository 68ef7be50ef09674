import HTTP2Wire
import NIOCore
import SupervisedPool

@testable import APNSPool

extension ConnectionActor {
    /// Sends one request and waits for its result.
    nonisolated func send(_ request: HTTP2Request, deadline: MonotonicInstant) async -> StreamResult {
        await self.send { ticket, continuation in
            PushSubmission(
                request: request,
                deadline: deadline,
                responseLimit: .hours(1),
                ticket: ticket,
                continuation: continuation
            )
        }
    }
}

extension ConnectionActor {
    /// Counts a push as pending that no connection has.
    nonisolated func forgetPush(_ continuation: StreamContinuation) {
        Task { await self.keep(continuation) }
    }

    private func keep(_ continuation: StreamContinuation) { _ = self.pending.insert(continuation, ticket: 0) }

    /// Ends the worker as a defect in the library would.
    func crash() {
        for connection in self.connections.values { connection.breakInvariant() }
    }
}

extension APNSClient {
    /// Crashes the worker that the next push would get.
    ///
    /// - Returns: false if no worker gave a stream.
    func crashWorker(within time: Duration = .seconds(10)) async -> Bool {
        do {
            let lease = try await self.runtime.pool.checkout(deadline: self.runtime.clock.now.advanced(by: time))
            await lease.worker.crash()
            return true
        } catch {
            return false
        }
    }
}
