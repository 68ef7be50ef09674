import APNSTransport

extension ResolvedAuthentication {
    /// An identifier that is equal for all users of one key or certificate; nil if the public key is not known.
    var credentialID: String? {
        if let certificate { return "certificate/\(certificate.fingerprint)" }
        guard let signer, let publicKey = signer.publicKey else { return nil }
        return "\(signer.identifiers.teamID)/\(signer.identifiers.keyID)/\(publicKey)"
    }

    /// The owner of the clients of all apps with this key or certificate from the same files; nil if the public key is not
    /// known. A client changes its credential when its files do, so apps with other files must not share it.
    var sharedOwner: String? {
        self.credentialID.map { ([$0] + self.authentication.files).joined(separator: "\n") }
    }
}
