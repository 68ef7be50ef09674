import HTTP2Wire

extension ResolvedAuthentication {
    /// The same for all with the same key or certificate; nil where that cannot be told.
    var owner: String? {
        if let certificate { return "certificate/\(certificate.fingerprint)" }
        guard let signer, let publicKey = signer.publicKey else { return nil }
        return "\(signer.identifiers.teamID)/\(signer.identifiers.keyID)/\(publicKey)"
    }
}
