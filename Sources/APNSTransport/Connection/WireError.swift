import NIOPosix

/// Why a connection could not be established, or why it ended.
package struct WireError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of error. Later versions may add kinds.
    package struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
        package let rawValue: String
        package init(rawValue: String) { self.rawValue = rawValue }
        package var description: String { self.rawValue }

        // Establishing the connection.
        package static let hostNotFound = Code(rawValue: "host-not-found")
        package static let nameResolutionFailed = Code(rawValue: "name-resolution-failed")
        package static let connectRefused = Code(rawValue: "connect-refused")
        package static let connectTimeout = Code(rawValue: "connect-timeout")
        package static let connectFailed = Code(rawValue: "connect-failed")
        package static let handshakeFailed = Code(rawValue: "tls-handshake-failed")
        package static let notTLS = Code(rawValue: "not-tls")
        package static let noHTTP2 = Code(rawValue: "no-http2")
        /// The proxy refuses our user name and password, or requires them (407 or 401).
        package static let proxyAuthenticationFailed = Code(rawValue: "proxy-authentication-failed")
        /// The proxy allows no tunnel to this host and port (any other 3xx or 4xx).
        package static let proxyRefused = Code(rawValue: "proxy-refused")
        /// The proxy could not open the tunnel (5xx, 408, 425, 429), or it closed the connection.
        package static let proxyFailed = Code(rawValue: "proxy-failed")
        /// The server at the proxy's address does not speak HTTP/1.1.
        package static let notAProxy = Code(rawValue: "not-a-proxy")
        // Certificates.
        package static let trustStoreMissing = Code(rawValue: "trust-store-missing")
        package static let trustRootsUnreadable = Code(rawValue: "trust-roots-unreadable")
        package static let certificateUnusable = Code(rawValue: "certificate-unusable")
        package static let certificateUntrusted = Code(rawValue: "certificate-untrusted")
        package static let certificateExpired = Code(rawValue: "certificate-expired")
        package static let certificateNotYetValid = Code(rawValue: "certificate-not-yet-valid")
        package static let certificateForOtherHost = Code(rawValue: "certificate-for-other-host")
        /// The peer refused *our* certificate, or requires one (TLS alerts 42 to 46, 48, 51 and 116).
        package static let clientCertificateRefused = Code(rawValue: "client-certificate-refused")
        // During the connection's lifetime.
        package static let closedByPeer = Code(rawValue: "closed-by-peer")
        package static let connectionReset = Code(rawValue: "connection-reset")
        package static let closedLocally = Code(rawValue: "closed-locally")
        package static let goAway = Code(rawValue: "go-away")
        package static let pingTimeout = Code(rawValue: "ping-timeout")
        package static let tlsFailure = Code(rawValue: "tls-failure")
        package static let protocolViolation = Code(rawValue: "protocol-violation")
        /// The peer sent too much that advances no request, or requires replies that it does not read.
        package static let flooded = Code(rawValue: "flooded")
        /// An invariant of our own was violated. The owner of the connection must end; its supervisor counts this as a
        /// failure.
        package static let invariantBroken = Code(rawValue: "invariant-broken")
    }

    package var code: Code
    package var message: String

    /// Whether a proxy has opened no tunnel.
    package var isAboutProxy: Bool {
        [.proxyAuthenticationFailed, .proxyRefused, .proxyFailed, .notAProxy].contains(self.code)
    }

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// Whether a retry cannot succeed until a setting, a file or a certificate is changed.
    package var isConfiguration: Bool {
        switch self.code {
        case .hostNotFound, .noHTTP2, .notTLS, .trustStoreMissing, .trustRootsUnreadable, .certificateUnusable,
            .certificateUntrusted, .certificateExpired, .certificateNotYetValid, .certificateForOtherHost,
            .clientCertificateRefused, .proxyAuthenticationFailed, .proxyRefused, .notAProxy:
            true
        default:
            false
        }
    }

    /// The cause to report for the streams that this error cut off.
    var streamCause: StreamCause { self.code == .closedLocally ? .closedLocally : .connectionLost }

    package var description: String { "\(self.message) (\(self.code))" }
}

extension WireError {
    /// The error of a connection that could not be established.
    init(connecting error: any Error, to host: String) {
        guard let error = error as? NIOConnectionError else {
            self = WireHandler.ioError(error)
            return
        }
        let attempts = error.connectionErrors.map { WireHandler.ioError($0.error) }
        let lookUps = [error.dnsAError, error.dnsAAAAError].compactMap { $0 as? WireError }
        // A refused connection says more than the timeout of another address.
        self =
            attempts.first { $0.code == .connectRefused } ?? attempts.first ?? lookUps.first
            ?? WireError(.hostNotFound, "the host '\(host)' has no address")
    }
}
