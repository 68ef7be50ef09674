import HTTP2Wire

extension APNSClientConfiguration {
    /// An HTTP proxy that all connections go through: it is asked for a tunnel (CONNECT, RFC 9110, section 9.3.6), and TLS
    /// with APNs runs inside the tunnel. The proxy sees host and port, and looks the host up; it never sees a push.
    ///
    /// What the proxy refuses (407, 403 and other 4xx) is a fault of the configuration: pushes fail at once with the code
    /// `configuration`. Its 5xx and a closed connection are tried again as every failed connect is. The time for the
    /// proxy's answer is part of `timeouts.connect`.
    ///
    /// ```swift
    /// configuration.proxy = .init(host: "proxy.example.com", port: 3128, username: "fern", password: password)
    /// ```
    /// The password appears in no log, error or description.
    public struct Proxy: Sendable, Hashable {
        /// The proxy's name or address.
        public var host: String
        /// The proxy's port, 1 to 65535.
        public var port: Int
        /// For Basic authentication (RFC 7617), in UTF-8, without a colon. Nil: the proxy asks for none.
        public var username: String?
        /// The password for `username`; nil: an empty one. Not without a user name.
        public var password: String?

        /// Nothing is checked here: a client that is made with it throws `APNSConfigurationError`.
        ///
        /// - Parameters:
        ///   - host: the proxy's name or address.
        ///   - port: 1 to 65535.
        ///   - username: for Basic authentication; nil: none.
        ///   - password: only with a user name.
        public init(host: String, port: Int, username: String? = nil, password: String? = nil) {
            self.host = host
            self.port = port
            self.username = username
            self.password = password
        }

        var endpoint: ProxyEndpoint {
            ProxyEndpoint(
                host: self.host,
                port: self.port,
                credentials: self.username.map { .init(username: $0, password: self.password ?? "") }
            )
        }

        func validate() throws(APNSConfigurationError) {
            func wrong(_ setting: String, _ message: String) -> APNSConfigurationError {
                APNSConfigurationError(.outOfRange, setting: setting, message: "'\(setting)' \(message)")
            }
            func hasControls(_ text: String) -> Bool { text.utf8.contains { $0 < 0x20 || $0 == 0x7F } }
            guard APNSEnvironment.isHost(self.host) else {
                throw wrong("proxy.host", "is '\(self.host)'; allowed is a host name or address")
            }
            guard (1...65535).contains(self.port) else {
                throw wrong("proxy.port", "is \(self.port); allowed is 1 to 65535")
            }
            if let username {
                guard !username.isEmpty, !username.contains(":"), !hasControls(username) else {
                    throw wrong("proxy.username", "is empty, or has a colon or control characters")
                }
            }
            guard let password else { return }
            guard self.username != nil else {
                throw APNSConfigurationError(
                    .conflict,
                    setting: "proxy.password",
                    message: "'proxy.password' is set, but 'proxy.username' is not"
                )
            }
            // What is wrong with it is said without showing it.
            if hasControls(password) { throw wrong("proxy.password", "has control characters") }
        }
    }
}

extension APNSClientConfiguration.Proxy: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Host, port and user name; never the password.
    public var description: String {
        let user = self.username.map { "\($0)@" } ?? ""
        return "http://\(user)\(self.endpoint)"
    }

    public var debugDescription: String { self.description }

    /// Shows the description only, so that `dump` does not print the password.
    public var customMirror: Mirror { Mirror(self, children: ["url": self.description]) }
}
