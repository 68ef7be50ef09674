/// The APNs service that receives the pushes.
///
/// Device tokens, channels and most keys belong to one environment. Builds installed by Xcode get development tokens;
/// builds from TestFlight or the App Store get production tokens. Source: Apple, "Sending notification requests to
/// APNs" and "Sending channel management requests to APNs".
public struct APNSEnvironment: Sendable, Hashable, CustomStringConvertible {
    /// The allowed ports.
    static let ports = 1...65535

    /// The host to connect to. Its name is verified in the certificate and sent in `:authority`.
    public var host: String
    /// 443, or 2197 if a firewall has to distinguish APNs from other HTTPS traffic.
    public var port: Int
    private var ownManagementHost: String?
    private var ownManagementPort: Int?

    /// The host for managing broadcast channels; see `APNSClient.channels`. Equals `host` for a custom environment
    /// unless set.
    public var managementHost: String {
        get { self.ownManagementHost ?? self.host }
        set { self.ownManagementHost = newValue }
    }

    /// The port for managing broadcast channels: 2196 in production, 2195 in development. Equals `port` for a custom
    /// environment unless set.
    public var managementPort: Int {
        get { self.ownManagementPort ?? self.port }
        set { self.ownManagementPort = newValue }
    }

    /// `api.push.apple.com`. The host for managing channels is `api-manage-broadcast.push.apple.com:2196`.
    public static let production = APNSEnvironment(
        host: "api.push.apple.com",
        port: 443,
        ownManagementHost: "api-manage-broadcast.push.apple.com",
        ownManagementPort: 2196
    )

    /// `api.sandbox.push.apple.com`. The host for managing channels is
    /// `api-manage-broadcast.sandbox.push.apple.com:2195`.
    public static let development = APNSEnvironment(
        host: "api.sandbox.push.apple.com",
        port: 443,
        ownManagementHost: "api-manage-broadcast.sandbox.push.apple.com",
        ownManagementPort: 2195
    )

    /// Another name of ``development``: Apple's documentation uses both.
    public static let sandbox = development

    /// The production environment with another port for pushes: `.production(port: 2197)`.
    public static func production(port: Int) -> APNSEnvironment { Self.production.with(port) }

    /// The development environment with another port for pushes: `.development(port: 2197)`.
    public static func development(port: Int) -> APNSEnvironment { Self.development.with(port) }

    /// Another name of ``development(port:)``.
    public static func sandbox(port: Int) -> APNSEnvironment { Self.development.with(port) }

    /// Another server that implements the APNs protocol, such as a simulator or a relay. Channels are managed on the
    /// same host and port unless you set `managementHost` and `managementPort`.
    public static func custom(host: String, port: Int = 443) -> APNSEnvironment {
        APNSEnvironment(host: host, port: port, ownManagementHost: nil, ownManagementPort: nil)
    }

    private init(host: String, port: Int, ownManagementHost: String?, ownManagementPort: Int?) {
        self.host = host
        self.port = port
        self.ownManagementHost = ownManagementHost
        self.ownManagementPort = ownManagementPort
    }

    private func with(_ port: Int) -> APNSEnvironment {
        var copy = self
        copy.port = port
        return copy
    }

    public var description: String { "\(self.host):\(self.port)" }

    /// The value of `:authority` (RFC 9113, section 8.3.1).
    var authority: String { Self.authority(self.host, self.port) }

    var managementAuthority: String { Self.authority(self.managementHost, self.managementPort) }

    private static func authority(_ host: String, _ port: Int) -> String {
        let host = host.contains(":") ? "[\(host)]" : host
        return port == 443 ? host : "\(host):\(port)"
    }

    /// Whether the host belongs to Apple. Apple's hosts require a credential.
    package var isApples: Bool {
        let name = self.host.lowercased()
        return name == "push.apple.com" || name.hasSuffix(".push.apple.com")
    }

    /// Whether the text can be a host name or an address: visible ASCII characters without a leading dot.
    static func isHost(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.first != UInt8(ascii: ".")
            && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }
}
