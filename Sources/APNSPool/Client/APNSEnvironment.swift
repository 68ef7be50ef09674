/// The APNs service that pushes go to.
///
/// Device tokens, channels and most keys belong to one environment: a token of a build that Xcode installed is a
/// development token, one from TestFlight or the App Store a production token. Source: Apple, "Sending notification
/// requests to APNs" and "Sending channel management requests to APNs".
public struct APNSEnvironment: Sendable, Hashable, CustomStringConvertible {
    /// The host that is connected to, verified and named in `:authority`.
    public var host: String
    /// 443, or 2197 where a firewall must tell APNs from other HTTPS.
    public var port: Int
    private var ownManagementHost: String?
    private var ownManagementPort: Int?

    /// The host that broadcast channels are managed on; see `APNSClient.channels`. The same as `host` where it was not set.
    public var managementHost: String {
        get { self.ownManagementHost ?? self.host }
        set { self.ownManagementHost = newValue }
    }

    /// The port that broadcast channels are managed on: 2196 in production, 2195 in development, the same as `port` where
    /// it was not set.
    public var managementPort: Int {
        get { self.ownManagementPort ?? self.port }
        set { self.ownManagementPort = newValue }
    }

    /// `api.push.apple.com`; channels are managed on `api-manage-broadcast.push.apple.com:2196`.
    public static let production = APNSEnvironment(
        host: "api.push.apple.com",
        port: 443,
        ownManagementHost: "api-manage-broadcast.push.apple.com",
        ownManagementPort: 2196
    )

    /// `api.sandbox.push.apple.com`; channels are managed on `api-manage-broadcast.sandbox.push.apple.com:2195`.
    public static let development = APNSEnvironment(
        host: "api.sandbox.push.apple.com",
        port: 443,
        ownManagementHost: "api-manage-broadcast.sandbox.push.apple.com",
        ownManagementPort: 2195
    )

    /// The same service on another port for pushes: `.production(port: 2197)`.
    public static func production(port: Int) -> APNSEnvironment { Self.production.with(port) }

    /// The same service on another port for pushes: `.development(port: 2197)`.
    public static func development(port: Int) -> APNSEnvironment { Self.development.with(port) }

    /// Another server that speaks APNs' protocol: a simulator, a relay. Channels are managed on the same host and port,
    /// unless that is changed by `managementHost` and `managementPort`.
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

    /// Whether the host is one of Apple's, which requires a credential.
    package var isApples: Bool {
        let name = self.host.lowercased()
        return name == "push.apple.com" || name.hasSuffix(".push.apple.com")
    }

    /// Whether it may be a host name or an address: visible ASCII characters, without a dot at the beginning.
    static func isHost(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.first != UInt8(ascii: ".")
            && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }
}
