/// The APNs service that pushes go to.
///
/// Device tokens, channels and most keys belong to one environment: a token of a build that Xcode installed is a
/// development token, one from TestFlight or the App Store a production token. Source: Apple, "Sending notification
/// requests to APNs".
public struct APNSEnvironment: Sendable, Hashable, CustomStringConvertible {
    /// The host that is connected to, verified and named in `:authority`.
    public var host: String
    /// 443, or 2197 where a firewall must tell APNs from other HTTPS.
    public var port: Int

    /// `api.push.apple.com`.
    public static let production = APNSEnvironment(host: "api.push.apple.com", port: 443)
    /// `api.sandbox.push.apple.com`.
    public static let development = APNSEnvironment(host: "api.sandbox.push.apple.com", port: 443)

    /// Another server that speaks APNs' protocol: a simulator, a relay.
    public static func custom(host: String, port: Int = 443) -> APNSEnvironment {
        APNSEnvironment(host: host, port: port)
    }

    private init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    public var description: String { "\(self.host):\(self.port)" }

    /// The value of `:authority` (RFC 9113, section 8.3.1).
    var authority: String {
        let host = self.host.contains(":") ? "[\(self.host)]" : self.host
        return self.port == 443 ? host : "\(host):\(self.port)"
    }
}
