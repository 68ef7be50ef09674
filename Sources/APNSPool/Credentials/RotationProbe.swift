import Synchronization

/// One push's right to probe a candidate credential. It ends when the push has its result, or with the last reference
/// to it, however the push ends.
final class RotationProbe: Sendable {
    private let session: CredentialSession
    private let credentials: CredentialManager
    private let hasEnded = Atomic<Bool>(false)

    init(_ session: CredentialSession, _ credentials: CredentialManager) {
        self.session = session
        self.credentials = credentials
    }

    deinit { self.end() }

    func end() {
        guard !self.hasEnded.exchange(true, ordering: .acquiringAndReleasing) else { return }
        self.credentials.probeEnded(self.session)
    }
}
