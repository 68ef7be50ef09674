/// A configuration while its settings are read: what is set already, what can be set only together with others, and what
/// was wrong. Pure, but that ``finish()`` reads the files of the authentication.
struct SettingsDraft {
    typealias Fault = APNSSettingsError.Fault

    /// Where a setting was found.
    struct Origin {
        var written: String
        var source: String
        /// The number of the source; the first one goes before all others.
        var layer: Int
    }

    var configuration: APNSClientConfiguration
    /// The settings that are parts of something, by their keys.
    var parts: [String: SettingKind.Value] = [:]
    private(set) var origins: [String: Origin] = [:]
    private(set) var faults: [Fault] = []
    let prefix: String

    init(_ configuration: APNSClientConfiguration, prefix: String) {
        self.configuration = configuration
        self.prefix = prefix
    }

    // MARK: Reading

    /// Takes each setting from the first source that has it, then makes the whole.
    mutating func read(_ sources: [APNSSettingsSource]) {
        for source in sources where source.isStrict { self.faults += source.strangers(prefix: self.prefix) }
        for setting in SettingsTable.settings {
            let path = APNSSetting.path(self.prefix, setting.key)
            for (layer, source) in sources.enumerated() {
                guard let finding = source.find(path, setting) else { continue }
                let origin = Origin(written: source.written(path), source: source.name, layer: layer)
                // An empty text is how templates leave a setting out.
                if case .text(let text) = finding, text.withoutBlanksAround.isEmpty { continue }
                self.origins[setting.key] = origin
                self.take(finding, for: setting)
                break
            }
        }
        self.finish()
    }

    private mutating func take(_ finding: APNSSettingsSource.Finding, for setting: APNSSetting) {
        switch finding {
        case .unusable(let what):
            self.complain(setting.key, .malformed, "it is \(what), not one value")
        case .text(let text):
            if !setting.isSecret, setting.kind != .pem, Self.isPrivateKey(text) {
                let key = APNSSetting.path(self.prefix, "privateKey")
                self.complain(setting.key, .malformed, "it is the text of a private key, which belongs to '\(key)'")
                return
            }
            do throws(SettingKind.Mistake) {
                setting.put(&self, try setting.kind.value(text))
            } catch {
                self.complain(setting.key, error.code, Self.message(text, error, setting))
            }
        }
    }

    private static func message(_ text: String, _ mistake: SettingKind.Mistake, _ setting: APNSSetting) -> String {
        // A password may stand before an '@'.
        let isShown = setting.isShown && !text.contains("@")
        let value = isShown ? "'\(shown(text))'" : "the value"
        if let expected = mistake.expected {
            let limits = setting.kind.limits
            if case .choice = setting.kind { return "\(value) is not \(expected)" }
            return "\(value) is not \(expected)" + (limits.isEmpty ? "" : "; allowed is \(limits)")
        }
        return "\(value) is out of range; allowed is \(setting.kind.limits)"
    }

    /// A key in the place of something that is shown must not be shown either.
    private static func isPrivateKey(_ text: String) -> Bool {
        let text = text.withoutBlanksAround
        if text.contains("PRIVATE KEY") { return true }
        // Base64 of "-----BEGIN " and of the first bytes of a key in PKCS#8.
        return text.count > 60 && (text.hasPrefix("LS0tLS1CRUdJTi") || text.hasPrefix("MIG"))
    }

    /// A text in an error: short, in one line.
    static func shown(_ text: String) -> String {
        let plain = text.unicodeScalars.prefix(80).map { $0.value < 0x20 || $0.value == 0x7F ? " " : String($0) }
        return plain.joined() + (text.unicodeScalars.count > 80 ? "…" : "")
    }

    // MARK: Complaining

    mutating func complain(_ key: String, _ code: APNSConfigurationError.Code, _ message: String) {
        let path = APNSSetting.path(self.prefix, key)
        let origin = self.origins[key]
        self.faults.append(
            Fault(
                code: code,
                key: path,
                written: origin?.written ?? path,
                source: origin?.source,
                message: message
            )
        )
    }

    /// An error of the client's own, which names a property, in terms of keys.
    mutating func complain(_ error: APNSConfigurationError) {
        let properties = error.setting.split(separator: " ").map(String.init)
        let candidates = SettingsTable.settings.filter { !Set($0.properties).isDisjoint(with: properties) }
        let given = candidates.first { self.origins[$0.key] != nil } ?? candidates.first
        guard let given else {
            self.complain(error.setting, error.code, error.message)
            return
        }
        self.complain(given.key, error.code, error.message)
    }

    /// "'apns.keyFile' (APNS_KEY_FILE)"
    func name(_ key: String) -> String {
        let path = APNSSetting.path(self.prefix, key)
        return "'\(path)' (\(APNSSetting.variable(path)))"
    }

    // MARK: Parts

    func isGiven(_ key: String) -> Bool { self.parts[key] != nil }

    func text(_ key: String) -> String? {
        if case .text(let text)? = self.parts[key] { return text }
        return nil
    }

    func integer(_ key: String) -> Int? {
        if case .integer(let number)? = self.parts[key] { return number }
        return nil
    }

    func bytes(_ key: String) -> [UInt8]? {
        if case .bytes(let bytes)? = self.parts[key] { return bytes }
        return nil
    }

    /// Of two that exclude each other the one of the earlier source is taken; in one source they contradict each other.
    private mutating func choose(_ first: String, _ second: String) {
        guard self.isGiven(first), self.isGiven(second) else { return }
        let layers = (self.origins[first]?.layer ?? 0, self.origins[second]?.layer ?? 0)
        if layers.0 < layers.1 {
            self.parts[second] = nil
        } else if layers.0 > layers.1 {
            self.parts[first] = nil
        } else {
            let other = self.origins[first]?.written ?? first
            self.complain(second, .conflict, "it and '\(other)' exclude each other: give one of them")
        }
    }

    // MARK: Making the whole

    private mutating func finish() {
        for (first, second) in [
            ("keyFile", "privateKey"), ("certificateFile", "certificate"), ("pkcs12.file", "pkcs12.data"),
            ("environment", "host"),
        ] {
            self.choose(first, second)
        }
        self.setService()
        self.setProxy()
        self.setTrust()
        self.checkMassRejection()
        let count = self.faults.count
        self.setAuthentication()
        if self.faults.count == count {
            self.check { configuration throws(APNSConfigurationError) in
                _ = try configuration.authentication.resolve(wallNow: configuration.wallClock())
            }
        }
        // What follows reads the configuration as a whole: half of one would be blamed for what is not there.
        guard self.faults.isEmpty else { return }
        self.check { configuration throws(APNSConfigurationError) in try configuration.validate() }
        guard self.isGiven("caFile") || self.isGiven("caPEM") else { return }
        self.check { configuration throws(APNSConfigurationError) in
            _ = try TLSContexts(trust: configuration.trust).context(for: nil)
        }
    }

    private mutating func check(_ body: (APNSClientConfiguration) throws(APNSConfigurationError) -> Void) {
        do throws(APNSConfigurationError) {
            try body(self.configuration)
        } catch {
            self.complain(error)
        }
    }

    private mutating func setService() {
        if let host = self.text("host") {
            self.configuration.environment = .custom(host: host)
        } else if let name = self.text("environment") {
            self.configuration.environment = name == "production" ? .production : .development
        }
        if let port = self.integer("port") { self.configuration.environment.port = port }
        if let host = self.text("managementHost") { self.configuration.environment.managementHost = host }
        if let port = self.integer("managementPort") { self.configuration.environment.managementPort = port }
    }

    private mutating func setProxy() {
        let keys = ["proxy.host", "proxy.port", "proxy.username", "proxy.password"]
        guard let first = keys.first(where: { self.isGiven($0) }) else { return }
        var proxy = self.configuration.proxy ?? .init(host: "", port: 0)
        if let host = self.text("proxy.host") { proxy.host = host }
        if let port = self.integer("proxy.port") { proxy.port = port }
        if let username = self.text("proxy.username") { proxy.username = username }
        if let password = self.text("proxy.password") { proxy.password = password }
        // One that was given and is wrong has been complained about.
        if proxy.host.isEmpty, self.origins["proxy.host"] == nil {
            self.complain("proxy.host", .missing, "it is not set, but '\(self.origins[first]?.written ?? first)' is")
        }
        if proxy.port == 0, self.origins["proxy.port"] == nil {
            self.complain("proxy.port", .missing, "it is not set, but '\(self.origins[first]?.written ?? first)' is")
        }
        self.configuration.proxy = proxy
    }

    private mutating func setTrust() {
        if let file = self.text("caFile") { self.configuration.trust.caFile = file }
        if let text = self.text("caPEM") {
            let plain = PrivateKeyText.plainPEM(Array(text.utf8))
            self.configuration.trust.caPEM = String(decoding: plain, as: UTF8.self)
        }
    }

    private mutating func checkMassRejection() {
        let limits = self.configuration.massRejection
        let keys = ["massRejection.rejections", "massRejection.window"]
        guard limits.rejections > limits.window, limits.rejections != MassRejectionLimits.off.rejections,
            let given = keys.first(where: { self.origins[$0] != nil })
        else { return }
        self.complain(
            given,
            .conflict,
            "\(limits.rejections) refused tokens cannot be among the last \(limits.window); say 'off' to switch the breaker off"
        )
    }
}
