@testable import APNSPool

extension APNSAuthenticationError {
    /// The error that a replacement throws; nil if it succeeds.
    static func of(_ body: () async throws -> Void) async -> APNSAuthenticationError? {
        do {
            try await body()
            return nil
        } catch {
            return error as? APNSAuthenticationError
        }
    }
}
