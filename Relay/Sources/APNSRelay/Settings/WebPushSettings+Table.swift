@_spi(Relay) import APNSPool
import WebPushGateway

extension RelaySettingsTable {
    /// The settings `webPush.…`.
    struct WebPush: Sendable, Hashable {
        var key: String?
        var keyFile: String?
        var oldKey: String?
        var oldKeyFile: String?
        var registration = Registration.token
        var appAttestRootFile: String?
        var settings = WebPushSettings(origins: [], key: [])

        enum Registration: Sendable, Hashable {
            case token, appAttest, open
        }
    }

    static let webPush: [SettingRow<Draft>] = [
        .list("webPush.origins", \.webPush.settings.origins),
        .text("webPush.key", \.webPush.key, isSecret: true), .file("webPush.keyFile", \.webPush.keyFile),
        .text("webPush.oldKey", \.webPush.oldKey, isSecret: true), .file("webPush.oldKeyFile", \.webPush.oldKeyFile),
        .boolean("webPush.requireVAPID", \.webPush.settings.requiresVAPID),
        .integer("webPush.pushesPerMinute", \.webPush.settings.pushesPerMinute, 1...1_000_000),
        .integer("webPush.keptMessages", \.webPush.settings.keptMessages, 0...1_000),
        .size("webPush.keptBytes", \.webPush.settings.keptBytes, 65_536...(1 << 40)),
        .choice(
            "webPush.registration",
            \.webPush.registration,
            ["token": .token, "appAttest": .appAttest, "open": .open]
        ),
        .file("webPush.appAttestRootFile", \.webPush.appAttestRootFile),
    ]
}

extension WebPushSettings {
    /// The settings `webPush.…`; nil if none is set, or if one is invalid, which is then reported.
    init?(_ draft: RelaySettingsTable.WebPush, _ reader: inout SettingsReader) {
        guard draft != RelaySettingsTable.WebPush() else { return nil }
        self = draft.settings
        if self.origins.isEmpty {
            reader.complain(
                "webPush.origins",
                .missing,
                "it is missing: set the origin of the endpoints, such as https://push.example.com"
            )
        }
        for origin in self.origins where !Self.isOrigin(origin) {
            reader.complain(
                "webPush.origins",
                .malformed,
                "'\(origin)' is not an origin, such as https://push.example.com"
            )
        }
        func key(_ text: String?, _ file: String?, _ key: String, isRequired: Bool) -> [UInt8]? {
            guard let text = reader.secret(text, orIn: file, key, isRequired: isRequired) else { return nil }
            guard let bytes = Base64Text.decode(text), bytes.count == DeviceTokenKeys.keyCount else {
                reader.complain(key, .malformed, "the key must be 32 random bytes in base64: openssl rand -base64 32")
                return nil
            }
            return bytes
        }
        let current = key(draft.key, draft.keyFile, "webPush.key", isRequired: true)
        let old = key(draft.oldKey, draft.oldKeyFile, "webPush.oldKey", isRequired: false)
        let root = reader.secret(nil, orIn: draft.appAttestRootFile, "webPush.appAttestRoot", isRequired: false)
        switch draft.registration {
        case .token: break
        case .open: self.registration = .open
        case .appAttest:
            do throws(AppAttestError) {
                self.registration = .appAttest(try AppAttestVerifier(root: root))
            } catch {
                reader.complain("webPush.appAttestRootFile", .malformed, error.message)
            }
        }
        guard let current else { return nil }
        self.key = current
        self.oldKeys = [old].compactMap { $0 }
    }

    private static func isOrigin(_ text: String) -> Bool {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        return parts.count == 3 && (parts[0] == "https:" || parts[0] == "http:") && parts[1].isEmpty
            && !parts[2].isEmpty
    }

    /// Checks that the gateway fits the relay's other settings.
    func check(_ settings: RelaySettings, _ reader: inout SettingsReader) {
        switch self.registration {
        case .open where !OriginGuard.isLoopbackAddress(settings.http.host):
            reader.complain(
                "webPush.registration",
                .conflict,
                "without verification, \(reader.writtenName("http.host")) must be a loopback address, not \(settings.http.host)"
            )
        case .appAttest where !settings.apps.isEmpty && settings.apps.allSatisfy({ $0.appIDPrefix == nil }):
            reader.complain(
                "webPush.registration",
                .conflict,
                "App Attest needs the app ID prefix of an app: set \(reader.writtenName("app.\(settings.apps[0].name).appIDPrefix"))"
            )
        case .open, .appAttest, .token: break
        }
    }
}
