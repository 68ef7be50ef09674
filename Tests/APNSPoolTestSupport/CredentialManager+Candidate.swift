import Testing

@testable import APNSPool

extension CredentialManager {
    /// Whether the next push tries a candidate.
    var isArmed: Bool { self.onTrial.map { self.phase(of: $0) == .armed } ?? false }

    /// Begins the rotation to a candidate that needs no provider token.
    func beginCandidate() async throws -> CredentialSession {
        let candidate = try self.makeSession(try await self.resolve(.withoutToken))
        #expect(self.begin(candidate))
        return candidate
    }
}
