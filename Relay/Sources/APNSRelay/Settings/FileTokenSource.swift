import APNSPool
import Logging

/// One provider token of each key for all programs that use a queue in a file: this relay, the next one after a restart, and
/// `apns-relay doctor`. Each token has a file beside the queue.
///
/// APNs counts the tokens of a key over all processes, and can refuse more than one in 20 minutes.
struct FileTokenSource: ProviderTokenSource {
    /// The queue's file.
    let queue: String
    let logger: Logger

    func token(for request: ProviderTokenRequest) async throws -> SharedProviderToken {
        let path = "\(self.queue).\(request.teamID).\(request.keyID).token"
        return try await SharedFileTokenSource(path: path, logger: self.logger).token(for: request)
    }
}
