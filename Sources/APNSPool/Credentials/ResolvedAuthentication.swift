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

    /// Whether both are the same key or certificate, whichever files they came from, or both have neither.
    func isSame(as other: ResolvedAuthentication) -> Bool {
        switch (self.certificate, other.certificate) {
        case (let own?, let theirs?): return own.fingerprint == theirs.fingerprint
        case (nil, nil): break
        default: return false
        }
        switch (self.signer, other.signer) {
        case (let own?, let theirs?): return own.hasSameKey(as: theirs)
        case (nil, nil): return true
        default: return false
        }
    }
}
