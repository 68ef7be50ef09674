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
