import APNSTransport

extension APNSClientConfiguration {
    /// An HTTP proxy for all connections.
    ///
    /// The client asks the proxy for a tunnel (CONNECT, RFC 9110, section 9.3.6) and runs TLS with APNs inside it. The
    /// proxy sees the host and port and resolves the host name. It never sees a push.
    ///
    /// If the proxy refuses the tunnel (407, 403 or another 4xx), this is a configuration fault: pushes fail at once
    /// with the code `configuration`. A 5xx response or a closed connection is retried like any other failed connect.
    /// The time the proxy takes to respond counts towards `timeouts.connect`.
    ///
    /// ```swift
    /// configuration.proxy = .init(host: "proxy.example.com", port: 3128, username: "fern", password: password)
    /// ```
    /// The password never appears in logs, errors or descriptions.
    public struct Proxy: Sendable, Hashable {
        /// The proxy's host name or address.
        public var host: String
        /// The proxy's port, 1 to 65535.
        public var port: Int
        /// The user name for Basic authentication (RFC 7617), in UTF-8, without a colon. Nil: no authentication.
        public var username: String?
        /// The password for `username`; nil: an empty password. Requires a user name.
        public var password: String?

        /// Creates the settings of a proxy. They are validated when a client is created, which then throws
        /// `APNSConfigurationError`.
        ///
        /// - Parameters:
        ///   - host: the proxy's host name or address.
        ///   - port: 1 to 65535.
        ///   - username: the user name for Basic authentication; nil: no authentication.
        ///   - password: the password; requires a user name.
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
                throw wrong("proxy.host", "is '\(self.host)'; allowed: a host name or address")
            }
            guard APNSEnvironment.ports.contains(self.port) else {
                throw .outOfRange("proxy.port", "\(self.port)", "1 to 65535")
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
            // The message describes the problem without revealing the password.
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

    /// Contains only the description, so that `dump` does not print the password.
    public var customMirror: Mirror { Mirror(self, children: ["url": self.description]) }
}
