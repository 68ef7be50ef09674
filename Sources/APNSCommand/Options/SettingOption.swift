@_spi(Relay) import APNSPool
import ArgumentParser

/// An option for one row of the settings table. The parser's options, their help and their values are made from it.
struct SettingOption: Sendable {
    /// The name without dashes.
    let name: String
    /// The setting's key below `apns`.
    let key: String
    let valueName: String
    let completion: CompletionKind
    private(set) var help = ""
    /// `APNS_POOL_SIZE`
    let variable: String
    /// Whether the option takes no value.
    private let isFlag: Bool

    private init(_ name: String, sets key: String, _ valueName: String, _ completion: CompletionKind = .default) {
        self.name = name
        self.key = key
        self.valueName = valueName
        self.completion = completion
        self.variable = APNSSetting.variable(APNSSetting.path("apns", key))
        self.isFlag = valueName.isEmpty
    }

    private func help(_ text: String) -> SettingOption {
        var option = self
        option.help = text
        return option
    }

    /// `--pool-size`
    var written: String { "--\(self.name)" }

    /// The key that signs provider tokens, and the file that may name it.
    static let ofKey: [SettingOption] = [
        SettingOption("config", sets: "config", "file", .file(extensions: ["json"]))
            .help("A JSON file for settings that neither the command line nor the environment gives."),
        SettingOption("key", sets: "keyFile", "p8", .file(extensions: ["p8"]))
            .help("The .p8 file from the developer portal."),
        SettingOption("key-id", sets: "keyID", "id")
            .help("The key's id; taken from the name AuthKey_XXXXXXXXXX.p8 if left out."),
        SettingOption("team-id", sets: "teamID", "id")
            .help("The id of the developer account's team."),
        SettingOption("token-file", sets: "tokenFile", "file", .file())
            .help("Share the signed token through this file, so that all processes use the same one."),
    ]

    /// All options, in the order of the help.
    static let all: [SettingOption] =
        ofKey + [
            SettingOption(
                "certificate",
                sets: "certificateFile",
                "pem|p12",
                .file(extensions: ["pem", "p12", "pfx", "cer"])
            )
            .help("A client certificate instead of --key: PEM, or PKCS#12 with its key."),
            SettingOption("certificate-key", sets: "certificateKeyFile", "pem", .file(extensions: ["pem", "key"]))
                .help("The certificate's private key, if it is in a file of its own."),
            SettingOption("certificate-password-file", sets: "certificatePasswordFile", "file", .file())
                .help("The first line of this file is the password of the certificate's key."),
            SettingOption("environment", sets: "environment", "name", .list(["production", "development", "sandbox"]))
                .help("production, or development (also called sandbox); default production."),
            SettingOption("endpoint", sets: "endpoint", "https://host:port")
                .help("Another server that speaks APNs' protocol, instead of --environment."),
            SettingOption("port", sets: "port", "n", .list(["443", "2197"]))
                .help("443, or 2197 for firewalls that separate APNs from other HTTPS; default 443."),
            SettingOption("proxy", sets: "proxy", "http://user:password@host:port")
                .help("Connect through this HTTP proxy (CONNECT); percent-encode user and password."),
            SettingOption("ca-file", sets: "caFile", "pem", .file(extensions: ["pem", "crt", "cer"]))
                .help("Trust these roots in addition to the system's."),
            SettingOption("topic", sets: "topic", "bundle-id")
                .help("The app's bundle id; the suffix of the push type is added."),
            SettingOption("pool-size", sets: "pool.size", "n")
                .help("Connections that are kept open; default 1."),
            SettingOption("max-overflow", sets: "pool.maxOverflow", "n")
                .help("Additional connections, opened while pushes wait; default 3."),
            SettingOption("in-flight", sets: "inFlight", "n")
                .help("The most pushes that are in flight or have no written row; default 1000."),
            SettingOption("timeout", sets: "timeouts.deadline", "seconds")
                .help("The time limit of a push for all its attempts together; default 30."),
            SettingOption("verbose", sets: "verbose", "")
                .help("Log the client's events on standard error."),
        ]
}

// MARK: - Parsing

/// Options that are rows of a table, without a property for each.
///
/// The parser finds options by reflection, and decodes them by their labels. This type gives it both from the table.
protocol SettingOptions: ParsableArguments, CustomReflectable {
    static var options: [SettingOption] { get }
    /// The given values, by the keys of their settings.
    var values: [String: String] { get set }
}

extension SettingOptions {
    init(from decoder: any Decoder) throws {
        self.init()
        let container = try decoder.container(keyedBy: SettingOption.Label.self)
        for option in Self.options { self.values[option.key] = try option.value(in: container) }
    }

    var customMirror: Mirror {
        Mirror(self, children: Self.options.map { ($0.name, $0.declaration) })
    }
}

extension SettingOption {
    /// The name of an option, as the parser stores its value.
    struct Label: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    /// What the parser needs to know about the option.
    fileprivate var declaration: Any {
        let help = "\(self.help) [env: \(self.variable)"
        if self.isFlag { return Flag(wrappedValue: false, name: .customLong(self.name), help: "\(help)=1]") }
        return Option<String?>(
            name: .customLong(self.name),
            // A value may start with a dash. An invalid one is then rejected with the name of its option.
            parsing: .unconditional,
            help: ArgumentHelp("\(help)]", valueName: self.valueName),
            completion: self.completion
        )
    }

    fileprivate func value(in container: KeyedDecodingContainer<Label>) throws -> String? {
        let label = Label(stringValue: self.name)
        guard self.isFlag else { return try container.decode(Option<String?>.self, forKey: label).wrappedValue }
        return try container.decode(Flag<Bool>.self, forKey: label).wrappedValue ? "true" : nil
    }
}

/// Parses the number of an option that is not a setting.
func wholeNumber(_ text: String, _ option: String, _ range: ClosedRange<Int>) throws -> Int {
    switch SettingKind.wholeNumber(text, range) {
    case .success(let number): return number
    case .failure(let error): throw UsageError("\(option): \(error.message)")
    }
}
