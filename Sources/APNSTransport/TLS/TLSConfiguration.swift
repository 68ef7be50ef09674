/// The trust roots, the certificate and the protocol versions of one side of a TLS connection.
package struct TLSConfiguration: Sendable, Hashable {
    package enum Version: Sendable, Hashable {
        case tls12
        case tls13
    }

    /// Why a server refuses a client's certificate.
    package enum CertificateRefusal: Sendable, Hashable {
        case bad
        case revoked
        case expired
        case unknownCA
        /// Only clients without a certificate are refused.
        case missing
    }

    /// The path of a file (PEM) with trust roots in addition to the system's.
    package var caFile: String?
    /// PEM text with trust roots in addition to the system's.
    package var caPEM: String?
    /// Whether the system's trust roots are trusted. They must exist unless other roots are given.
    package var trustsSystemRoots = true
    /// For tests: replaces the machine's trust roots.
    package var systemTrustRoots: SystemTrustRoots?
    package var minimumVersion = Version.tls12
    package var maximumVersion = Version.tls13
    /// Our certificate chain (PEM, leaf first) and its private key (PEM).
    package var certificateChainPEM: String?
    package var privateKeyPEM: String?
    /// Server only: clients must present a certificate that the trust roots verify.
    package var requiresClientCertificate = false
    /// Server only: the application protocol is HTTP/1.1 or 1.0 instead of `h2`.
    package var offersHTTP1Only = false
    /// For tests of clients: the server asks for a client certificate, and refuses it. Takes the place of
    /// ``requiresClientCertificate``.
    package var certificateRefusal: CertificateRefusal?
    /// For tests of clients: the server selects no application protocol.
    package var ignoresALPN = false
    /// For tests of clients: the server responds to every ClientHello with this fatal alert (RFC 8446, section 6.2).
    package var handshakeAlert: UInt8?

    package init() {}
}
