import Testing

@testable import APNSPool

extension APNSClient {
    /// Begins the rotation to a candidate that needs no provider token, without a probe.
    func beginCandidate() async throws -> CredentialSession {
        let credentials = self.runtime.credentials
        let candidate = try credentials.makeSession(try await self.runtime.resolve(.withoutToken))
        #expect(credentials.begin(candidate) == .begun)
        return candidate
    }
}
