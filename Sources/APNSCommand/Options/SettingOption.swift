import APNSPool
import ArgumentParser

/// An option for one row of the settings table.
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

    private init(_ name: String, sets key: String, _ valueName: String, _ completion: CompletionKind = .default) {
        self.name = name
        self.key = key
        self.valueName = valueName
        self.completion = completion
        self.variable = APNSSetting.variable(APNSSetting.path("apns", key))
    }

    private func help(_ text: String) -> SettingOption {
        var option = self
        option.help = text
        return option
    }

    /// `--pool-size`
    var written: String { "--\(self.name)" }

    static let config = SettingOption("config", sets: "config", "file", .file(extensions: ["json"]))
        .help("A JSON file for settings that neither the command line nor the environment gives.")
    static let key = SettingOption("key", sets: "keyFile", "p8", .file(extensions: ["p8"]))
        .help("The .p8 file from the developer portal.")
    static let keyID = SettingOption("key-id", sets: "keyID", "id")
        .help("The key's id; taken from the name AuthKey_XXXXXXXXXX.p8 if left out.")
    static let teamID = SettingOption("team-id", sets: "teamID", "id")
        .help("The id of the developer account's team.")
    static let tokenFile = SettingOption("token-file", sets: "tokenFile", "file", .file())
        .help("Share the signed token through this file, so that all processes use the same one.")
    static let certificate = SettingOption(
        "certificate",
        sets: "certificateFile",
        "pem|p12",
        .file(extensions: ["pem", "p12", "pfx", "cer"])
    )
    .help("A client certificate instead of --key: PEM, or PKCS#12 with its key.")
    static let certificateKey = SettingOption(
        "certificate-key",
        sets: "certificateKeyFile",
        "pem",
        .file(extensions: ["pem", "key"])
    )
    .help("The certificate's private key, if it is in a file of its own.")
    static let certificatePasswordFile = SettingOption(
        "certificate-password-file",
        sets: "certificatePasswordFile",
        "file",
        .file()
    )
    .help("The first line of this file is the password of the certificate's key.")
    static let environment = SettingOption(
        "environment",
        sets: "environment",
        "name",
        .list(["production", "development"])
    )
    .help("production or development; default production.")
    static let endpoint = SettingOption("endpoint", sets: "endpoint", "https://host:port")
        .help("Another server that speaks APNs' protocol, instead of --environment.")
    static let port = SettingOption("port", sets: "port", "n", .list(["443", "2197"]))
        .help("443, or 2197 for firewalls that separate APNs from other HTTPS; default 443.")
    static let proxy = SettingOption("proxy", sets: "proxy", "http://user:password@host:port")
        .help("Connect through this HTTP proxy (CONNECT); percent-encode user and password.")
    static let caFile = SettingOption("ca-file", sets: "caFile", "pem", .file(extensions: ["pem", "crt", "cer"]))
        .help("Trust these roots in addition to the system's.")
    static let topic = SettingOption("topic", sets: "topic", "bundle-id")
        .help("The app's bundle id; the suffix of the push type is added.")
    static let poolSize = SettingOption("pool-size", sets: "pool.size", "n")
        .help("Connections that are kept open; default 1.")
    static let maxOverflow = SettingOption("max-overflow", sets: "pool.maxOverflow", "n")
        .help("Additional connections, opened while pushes wait; default 3.")
    static let inFlight = SettingOption("in-flight", sets: "inFlight", "n")
        .help("Pushes in flight at once; default 1000.")
    static let timeout = SettingOption("timeout", sets: "timeouts.deadline", "seconds")
        .help("The time limit of a push for all its attempts together; default 30.")
    static let verbose = SettingOption("verbose", sets: "verbose", "")
        .help("Log the client's events on standard error.")

    /// All options, in the order of the help.
    static let all: [SettingOption] = [
        .config, .key, .keyID, .teamID, .tokenFile, .certificate, .certificateKey, .certificatePasswordFile,
        .environment,
        .endpoint, .port, .proxy, .caFile, .topic, .poolSize, .maxOverflow, .inFlight, .timeout, .verbose,
    ]

    /// The rows that the tool adds to the client's settings table.
    static let rows: [APNSSetting] = [
        .part("config", .path).meaning("A file with settings."),
        .part("topic", .string).meaning("The app's bundle id."),
        .part("inFlight", .integer(1...100_000)).meaning("Pushes in flight at once."),
        .part("verbose", .boolean).meaning("Whether the client's events are logged."),
    ]
}

extension Option where Value == String? {
    init(_ option: SettingOption) {
        self.init(
            name: .customLong(option.name),
            // A value may start with a dash. An invalid one is then rejected with the name of its option.
            parsing: .unconditional,
            help: ArgumentHelp("\(option.help) [env: \(option.variable)]", valueName: option.valueName),
            completion: option.completion
        )
    }
}

/// Parses the number of an option that is not a setting.
func wholeNumber(_ text: String, _ option: String, _ range: ClosedRange<Int>) throws -> Int {
    switch SettingKind.wholeNumber(text, range) {
    case .success(let number): return number
    case .failure(let error): throw UsageError("\(option): \(error.message)")
    }
}
