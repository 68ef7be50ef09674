import APNSBasics
import APNSTransport

/// An authentication whose settings and files were read and checked.
struct ResolvedAuthentication: Sendable {
    let authentication: APNSAuthentication
    /// Nil: no provider token is sent.
    var signer: ProviderTokenSigner?
    /// Nil: no certificate is shown.
    var certificate: TLSIdentity?

    init(authentication: APNSAuthentication) {
        self.authentication = authentication
    }

    /// A readable name of the credential, without secrets.
    var name: String {
        if let certificate {
            let end = CivilDate(secondsSince1970: certificate.notAfter)
            return "certificate '\(certificate.commonName)', valid until \(end)"
        }
        return self.signer.map { "key id \($0.identifiers.keyID), team id \($0.identifiers.teamID)" }
            ?? "no provider token"
    }

    /// Whether both are the same key or certificate, whichever files they came from.
    func isSame(as other: ResolvedAuthentication) -> Bool {
        if let certificate, let theirs = other.certificate { return certificate.fingerprint == theirs.fingerprint }
        guard let signer, let theirs = other.signer else { return false }
        return signer.hasSameKey(as: theirs)
    }
}
