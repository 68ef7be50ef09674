import APNSTransport

extension ResolvedAuthentication {
    /// An identifier that is equal for all users of one key or certificate; nil if the public key is not known.
    var credentialID: String? {
        if let certificate { return "certificate/\(certificate.fingerprint)" }
        guard let signer, let publicKey = signer.publicKey else { return nil }
        return "\(signer.identifiers.teamID)/\(signer.identifiers.keyID)/\(publicKey)"
    }
}
