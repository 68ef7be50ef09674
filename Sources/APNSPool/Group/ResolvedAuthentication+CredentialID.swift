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
    /// The files that a client watches, and how it checks, opens and uses them; empty without files. Contains no secret.
    var source: [String] {
        guard !self.files.isEmpty else { return [] }
        let checked = self.files + [self.fileCheckInterval.map { "\($0)" } ?? "never"]
        switch self.credential {
        case .key(_, let keyID, let teamID): return checked + [keyID ?? "", teamID]
        case .certificate(let input):
            let digest = input.passphrase.flatMap { try? SHA256Digest.hexadecimal(of: Array($0.utf8)) }
            return checked + [digest ?? ""]
        default: return checked
        }
    }
}
