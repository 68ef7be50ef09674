@_spi(Relay) import APNSModel

/// Combines settings (`parts`) into values of the configuration.
extension SettingsDraft {
    mutating func setService() {
        let server = self.chooseOne(of: ["environment", "endpoint"])
        // Ignore a management host from a later source: it belongs to another server.
        if let server {
            for key in ["managementHost", "managementPort"] where self.isLater(key, than: server) { self.drop(key) }
        }
        if server == "endpoint", let url = self.parts["endpoint"]?.server {
            self.exclude("port", by: "endpoint")
            self.configuration.environment = .custom(host: url.host, port: url.port ?? 443)
        } else if let name = self.text("environment") {
            self.configuration.environment = name == "production" ? .production : .development
        }
        if let port = self.integer("port") {
            if self.configuration.environment.isApples, port != 443, port != 2197 {
                self.complain("port", .outOfRange, "APNs listens on the ports 443 and 2197, not on \(port)")
            }
            self.configuration.environment.port = port
        }
        if let host = self.text("managementHost") { self.configuration.environment.managementHost = host }
        if let port = self.integer("managementPort") { self.configuration.environment.managementPort = port }
    }

    mutating func setProxy() {
        guard let url = self.parts["proxy"]?.server else { return }
        self.configuration.proxy = .init(
            host: url.host,
            port: url.port ?? 0,
            username: url.username,
            password: url.password
        )
    }

    mutating func setTrust() {
        if let file = self.text("caFile") { self.configuration.trust.caFile = file }
        if let text = self.text("caPEM") {
            let plain = PEMText.plain(Array(text.utf8))
            self.configuration.trust.caPEM = String(decoding: plain, as: UTF8.self)
        }
    }

    mutating func checkMassRejection() {
        let limits = self.configuration.massRejection
        let keys = ["massRejection.rejections", "massRejection.window"]
        guard limits.rejections > limits.window, limits.rejections != MassRejectionLimits.off.rejections,
            let given = keys.first(where: { self.isFound($0) })
        else { return }
        let what = "\(limits.rejections) refused tokens cannot be among the last \(limits.window)"
        self.complain(given, .conflict, "\(what); use 'off' to turn the detection off")
    }

    /// Reports a missing setting that another setting requires.
    private mutating func require(_ key: String, with other: String) {
        // A setting that was given with an invalid value has already been reported.
        guard !self.isFound(key) else { return }
        self.complain(key, .missing, "it is not set, and '\(self.writtenName(other))' needs it")
    }

    // MARK: Authentication

    private static let tokenCompanions = ["keyID", "teamID", "tokenFile"]
    private static let passphrases = ["passphrase", "certificatePasswordFile"]
    /// The ways to configure a credential, and the settings allowed with each.
    private static let credentials: KeyValuePairs<String, [String]> = [
        "pkcs12.data": passphrases,
        "certificateFile": passphrases + ["certificateKeyFile"], "certificate": passphrases + ["certificateKey"],
        "keyFile": tokenCompanions, "privateKey": tokenCompanions,
    ]

    /// The settings that go with the credential that was given.
    var companions: [String] {
        Self.credentials.filter { self.isFound($0.key) }.flatMap(\.value)
    }

    mutating func setAuthentication() {
        let base = self.configuration.authentication
        if let authentication = self.credential() {
            self.configuration.authentication = authentication
            self.configuration.authentication.tokenRefreshInterval = base.tokenRefreshInterval
            self.configuration.authentication.fileCheckInterval = base.fileCheckInterval
            self.configuration.authentication.tokenSource = base.tokenSource
        }
        if let path = self.text("tokenFile") {
            let source = SharedFileTokenSource(path: path, logger: self.configuration.logger)
            self.configuration.authentication.tokenSource = source
        }
    }

    /// The configured credential; nil if there is none, or none that can be used.
    private mutating func credential() -> APNSAuthentication? {
        let count = self.faults.count
        guard let credential = self.chooseOne(of: Self.credentials.map(\.key)) else {
            self.findOrphans()
            return nil
        }
        // With two credentials, it is unknown which one is meant and which settings belong to it.
        guard self.faults.count == count else { return nil }
        let companions = Self.credentials.first { $0.key == credential }?.value ?? []
        for key in Set(Self.credentials.flatMap(\.value)).subtracting(companions).sorted() {
            self.exclude(key, by: credential)
        }
        switch credential {
        case "keyFile", "privateKey": return self.token(credential)
        case "certificateFile": return self.certificateFile()
        case "certificate": return self.certificate()
        default:
            let passphrase = self.passphrase() ?? ""
            return self.parts["pkcs12.data"]?.bytes.map { .certificate(pkcs12Bytes: $0, passphrase: passphrase) }
        }
    }

    private mutating func token(_ key: String) -> APNSAuthentication? {
        let keyID = self.text("keyID")
        if key == "privateKey", keyID == nil { self.require("keyID", with: key) }
        guard let teamID = self.text("teamID") else {
            self.require("teamID", with: key)
            return nil
        }
        if key == "keyFile", let path = self.text("keyFile") {
            return .token(keyFile: path, keyID: keyID, teamID: teamID)
        }
        guard let text = self.text("privateKey"), let keyID else { return nil }
        return .token(privateKeyPEM: text, keyID: keyID, teamID: teamID)
    }

    private mutating func certificateFile() -> APNSAuthentication? {
        guard let path = self.text("certificateFile") else { return nil }
        let name = path.lowercased()
        guard name.hasSuffix(".p12") || name.hasSuffix(".pfx") else {
            let key = self.text("certificateKeyFile")
            return .certificate(certificateFile: path, keyFile: key, passphrase: self.passphrase())
        }
        if self.hasValue("certificateKeyFile") {
            self.complain(
                "certificateKeyFile",
                .conflict,
                "'\(path)' is a PKCS#12 file, in which the key is expected as well. If it holds no key, convert the "
                    + "certificate to PEM with 'openssl pkcs12 -in \(path) -nokeys -out apns.pem', and give apns.pem"
            )
        }
        return .certificate(pkcs12File: path, passphrase: self.passphrase() ?? "")
    }

    private mutating func certificate() -> APNSAuthentication? {
        guard let text = self.text("certificate") else { return nil }
        guard let key = self.text("certificateKey") else {
            self.require("certificateKey", with: "certificate")
            return nil
        }
        return .certificate(certificatePEM: text, privateKeyPEM: key, passphrase: self.passphrase())
    }

    /// The passphrase, or the first line of its file.
    private mutating func passphrase() -> String? {
        guard self.chooseOne(of: Self.passphrases) == "certificatePasswordFile",
            let path = self.text("certificatePasswordFile")
        else { return self.text("passphrase") }
        switch SystemFile.contents(ofRegular: path, limit: 64 * 1024) {
        case .success(let contents):
            // Editors save a byte order mark, which is not part of the passphrase.
            guard let bytes = try? JSONFileText.utf8(contents) else {
                self.complain(
                    "certificatePasswordFile",
                    .malformed,
                    "'\(path)' is in UTF-16. Save it as UTF-8 or ASCII"
                )
                return nil
            }
            let line = bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
            return String(decoding: line, as: UTF8.self)
        case .failure(let error):
            self.complain("certificatePasswordFile", .fileUnreadable, "'\(path)' cannot be read: \(error)")
            return nil
        }
    }

    /// Reports settings that belong to a missing credential, and a missing credential for APNs itself, which requires
    /// one.
    private mutating func findOrphans() {
        // A credential that was given with an invalid value has already been reported.
        guard Self.credentials.allSatisfy({ !self.isFound($0.key) }) else { return }
        var hasBase = true
        if case .withoutToken = self.configuration.authentication.credential { hasBase = false }
        var isComplete = true
        for (credential, keys) in [("keyFile", Self.tokenCompanions), ("certificateFile", Self.passphrases)] {
            // The token file may accompany a key that the program sets itself.
            for key in keys where self.hasValue(key) && !(hasBase && key == "tokenFile") {
                isComplete = false
                self.complain(key, .missing, "it belongs to a credential, but \(self.name(credential)) is not set")
            }
        }
        for (credential, key) in [("certificateFile", "certificateKeyFile"), ("certificate", "certificateKey")]
        where self.hasValue(key) {
            isComplete = false
            self.complain(key, .missing, "it belongs to a credential, but \(self.name(credential)) is not set")
        }
        let environment = self.configuration.environment
        guard isComplete, !hasBase, environment.isApples else { return }
        self.complain("keyFile", .missing, "it is missing: \(environment.host) requires a key or a certificate")
    }
}
