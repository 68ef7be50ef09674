/// The right of one push to try a candidate credential. It ends with the last reference, whatever becomes of the push.
final class RotationProbe: Sendable {
    private let session: CredentialSession
    private let credentials: CredentialManager

    init(_ session: CredentialSession, _ credentials: CredentialManager) {
        self.session = session
        self.credentials = credentials
    }

    deinit { self.credentials.probeEnded(self.session) }
}
