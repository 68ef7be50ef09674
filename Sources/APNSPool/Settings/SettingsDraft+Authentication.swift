/// How keys, certificates and what belongs to them become one authentication.
extension SettingsDraft {
    mutating func setAuthentication() {
        let intervals = self.configuration.authentication
        if let authentication = self.credential() {
            self.configuration.authentication = authentication
            self.configuration.authentication.tokenRefreshInterval = intervals.tokenRefreshInterval
            self.configuration.authentication.fileCheckInterval = intervals.fileCheckInterval
            self.configuration.authentication.tokenSource = intervals.tokenSource
        }
        if let path = self.text("tokenFile") {
            self.configuration.authentication.tokenSource = SharedFileTokenSource(
                path: path,
                logger: self.configuration.logger
            )
        }
    }

    /// What the settings say; nil when they say nothing, or nothing that can be used.
    private mutating func credential() -> APNSAuthentication? {
        let isPKCS12 = self.first("pkcs12.file", "pkcs12.data")
        let isCertificate = self.first("certificateFile", "certificate")
        let isKey = self.first("keyFile", "privateKey")
        if let isPKCS12 {
            for other in [isCertificate, isKey].compactMap({ $0 }) { self.exclude(other, by: isPKCS12) }
            self.excludeTokens(by: isPKCS12)
            return self.pkcs12()
        }
        if let isCertificate {
            self.excludeTokens(by: isCertificate)
            return self.certificate(isCertificate, key: isKey)
        }
        if let isKey {
            if self.isGiven("passphrase") {
                self.complain("passphrase", .conflict, "keys of provider tokens have none; leave it out")
            }
            return self.token(isKey)
        }
        for orphan in ["keyID", "teamID", "passphrase"] where self.isGiven(orphan) {
            // A key that was given and is wrong has been complained about.
            if self.origins["keyFile"] == nil, self.origins["privateKey"] == nil {
                self.complain(
                    orphan,
                    .missing,
                    "it says whose key it is, but neither \(self.name("keyFile")) nor \(self.name("privateKey")) is set"
                )
            }
            return nil
        }
        self.requireSomething()
        return nil
    }

    private func first(_ keys: String...) -> String? { keys.first { self.isGiven($0) } }

    private mutating func exclude(_ key: String, by other: String) {
        self.complain(
            key,
            .conflict,
            "it and '\(self.origins[other]?.written ?? other)' exclude each other: give one of them"
        )
    }

    private mutating func excludeTokens(by other: String) {
        for key in ["keyID", "teamID", "tokenFile"] where self.isGiven(key) { self.exclude(key, by: other) }
    }

    private mutating func token(_ key: String) -> APNSAuthentication? {
        let keyID = self.text("keyID")
        var isComplete = true
        if key == "privateKey", keyID == nil {
            self.require("keyID", with: key)
            isComplete = false
        }
        guard let teamID = self.text("teamID") else {
            self.require("teamID", with: key)
            return nil
        }
        if let text = self.text("privateKey"), let keyID {
            return .token(privateKeyPEM: text, keyID: keyID, teamID: teamID)
        }
        guard isComplete, let path = self.text("keyFile") else { return nil }
        return .token(keyFile: path, keyID: keyID, teamID: teamID)
    }

    private mutating func certificate(_ certificate: String, key: String?) -> APNSAuthentication? {
        let passphrase = self.text("passphrase")
        if let path = self.text("certificateFile") {
            if self.isGiven("privateKey") {
                self.complain("privateKey", .conflict, "with a certificate's file its key comes from a file, too")
                return nil
            }
            return .certificate(certificateFile: path, keyFile: self.text("keyFile"), passphrase: passphrase)
        }
        guard let text = self.text("certificate") else { return nil }
        guard let keyText = self.text("privateKey") else {
            self.require("privateKey", with: certificate)
            return nil
        }
        return .certificate(certificatePEM: text, privateKeyPEM: keyText, passphrase: passphrase)
    }

    private func pkcs12() -> APNSAuthentication? {
        let passphrase = self.text("passphrase") ?? ""
        if let path = self.text("pkcs12.file") {
            return .certificate(pkcs12File: path, passphrase: passphrase)
        }
        return self.bytes("pkcs12.data").map { .certificate(pkcs12Bytes: $0, passphrase: passphrase) }
    }

    private mutating func require(_ key: String, with other: String) {
        guard self.origins[key] == nil else { return }
        self.complain(
            key,
            .missing,
            "'\(self.origins[other]?.written ?? other)' needs it, but \(self.name(key)) is not set"
        )
    }

    /// APNs itself answers nothing without a key; another server may.
    private mutating func requireSomething() {
        guard case .withoutToken = self.configuration.authentication.credential else { return }
        // One that was given and is wrong has been complained about.
        let keys = ["keyFile", "privateKey", "certificateFile", "certificate", "pkcs12.file", "pkcs12.data"]
        guard keys.allSatisfy({ self.origins[$0] == nil }) else { return }
        let host = self.configuration.environment.host.lowercased()
        guard host == "push.apple.com" || host.hasSuffix(".push.apple.com") else { return }
        self.complain(
            "keyFile",
            .missing,
            "APNs wants a key, but neither \(self.name("keyFile")) nor \(self.name("privateKey")) nor a certificate is set"
        )
    }
}
