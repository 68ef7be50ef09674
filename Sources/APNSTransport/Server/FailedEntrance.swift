import CAPNSOpenSSL
import NIOCore

/// Why a client did not get as far as its first SETTINGS.
package struct FailedEntrance: Sendable, Hashable {
    package enum Cause: Sendable, Hashable {
        /// It sent HTTP/1 without TLS.
        case plainHTTP
        /// Its bytes are not TLS.
        case notTLS
        /// It offers other protocols than `h2` (ALPN).
        case noHTTP2
        /// TLS is established, and its bytes are not HTTP/2.
        case otherProtocol
        /// It has no TLS version or no cipher suite in common with the server.
        case oldTLS
        /// It sent this alert (RFC 8446, section 6.2).
        case alert(UInt8)
        case clientCertificateMissing
        case clientCertificateRefused(String)
        /// It closed the connection, before or after the end of the handshake.
        case closed(isEstablished: Bool)
        /// OpenSSL's text.
        case other(String)

        /// Whether the server has ended TLS with an alert about the client's certificate.
        var isRefusedCertificate: Bool {
            switch self {
            case .clientCertificateMissing, .clientCertificateRefused: true
            default: false
            }
        }
    }

    package var cause: Cause
    /// The server name that the client asked for (SNI), or the server's address if it asked for none.
    package var host: String?
    /// The client's IP address.
    package var client: String?
}

extension FailedEntrance {
    /// Nil for a client that sent nothing, such as a check whether the port is open.
    init?(_ tls: TLSSession, isEstablished: Bool, _ error: WireError, local: SocketAddress?, remote: SocketAddress?) {
        guard isEstablished || tls.hasInput else { return nil }
        self.host = tls.requestedName ?? local?.ipAddress
        self.client = remote?.ipAddress
        if error.code == .closedByPeer || error.code == .connectionReset {
            self.cause = .closed(isEstablished: isEstablished)
        } else if isEstablished, tls.failureReason == 0 {
            self.cause = error.code == .protocolViolation ? .otherProtocol : .other(error.message)
        } else {
            self.cause = Self.cause(tls, error)
        }
    }

    private static func cause(_ tls: TLSSession, _ error: WireError) -> Cause {
        switch tls.failureReason {
        // The client closed TLS in the middle of the handshake.
        case 0: .closed(isEstablished: false)
        case SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST: .plainHTTP
        case SSL_R_WRONG_VERSION_NUMBER, SSL_R_PACKET_LENGTH_TOO_LONG: .notTLS
        case SSL_R_NO_APPLICATION_PROTOCOL: .noHTTP2
        case SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_NO_SHARED_CIPHER: .oldTLS
        case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: .clientCertificateMissing
        case SSL_R_CERTIFICATE_VERIFY_FAILED: .clientCertificateRefused(tls.verificationText)
        case TLSSession.alertOffset...TLSSession.alertOffset + 255:
            .alert(UInt8(truncatingIfNeeded: tls.failureReason - TLSSession.alertOffset))
        default: .other(error.message)
        }
    }
}
