/// What one side of a TLS connection trusts and shows.
package struct TLSConfiguration: Sendable, Hashable {
    package enum Version: Sendable, Hashable {
        case tls12
        case tls13
    }

    /// The name of a file with further trust roots (PEM), beside the system's.
    package var caFile: String?
    /// Further trust roots as PEM text, beside the system's.
    package var caPEM: String?
    /// Whether the system's trust roots are trusted. They must exist unless other roots are given.
    package var trustsSystemRoots = true
    /// For tests: in place of the machine's.
    package var systemTrustRoots: SystemTrustRoots?
    package var minimumVersion = Version.tls12
    package var maximumVersion = Version.tls13
    /// Our certificate chain (PEM, leaf first) and its private key (PEM).
    package var certificateChainPEM: String?
    package var privateKeyPEM: String?
    /// A server's: clients must show a certificate that the trust roots vouch for.
    package var requiresClientCertificate = false
    /// For tests of clients: the server takes HTTP/1.1 instead of `h2`.
    package var offersHTTP11Only = false
    /// For tests of clients: the server chooses no application protocol at all.
    package var ignoresALPN = false
    /// For tests of clients: the server answers every ClientHello with this fatal alert (RFC 8446, section 6.2).
    package var handshakeAlert: UInt8?

    package init() {}
}
