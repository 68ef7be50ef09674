import APNSTransport

extension ResolvedAuthentication {
    /// An identifier that is equal for all users of one key or certificate; nil if the public key is not known.
    var credentialID: String? {
        if let certificate { return "certificate/\(certificate.fingerprint)" }
        guard let signer, let publicKey = signer.publicKey else { return nil }
        return "\(signer.identifiers.teamID)/\(signer.identifiers.keyID)/\(publicKey)"
    }

    /// The owner of the clients of all apps with this key or certificate from the same source; nil if the public key is
    /// not known. A client changes its credential when its files do, so apps with another source must not share it.
    var sharedOwner: String? {
        self.credentialID.map { ([$0] + self.authentication.source).joined(separator: "\n") }
    }
}

extension APNSAuthentication {
    /// The files that a client watches, and how it opens and checks them; empty without files. Contains no secret.
    var source: [String] {
        guard !self.files.isEmpty else { return [] }
        let interval = self.fileCheckInterval.map { "\($0)" } ?? "never"
        guard case .certificate(let input) = self.credential, let passphrase = input.passphrase else {
            return self.files + [interval]
        }
        let digest = (try? SHA256Digest.hexadecimal(of: Array(passphrase.utf8))) ?? ""
        return self.files + [interval, digest]
    }
}
