/// What a server other than the simulator needs for TLS 1.2 and 1.3: a certificate with its key, and the authorities of
/// its clients' certificates if clients must have one. The application protocol is HTTP/1.
@_spi(Relay) public struct ServerTLS: Sendable {
    /// What cannot be used.
    @_spi(Relay) public enum Fault: Error, Sendable, Hashable {
        /// The text of the chain has no certificate, or a damaged one.
        case certificateChain
        /// The text of the key has no key, or an encrypted one.
        case privateKey
        /// The key belongs to no certificate of the chain.
        case keyMismatch
        /// The text of the authorities has no certificate, or a damaged one.
        case clientAuthorities
        /// OpenSSL does not accept the certificates, for example because a key is too short. Its reason.
        case notAllowed(String)
    }

    private let identity: TLSIdentity
    private let clientAuthorities: String?
    private let context: TLSContext

    /// Reads and checks certificates and the key, all of them in PEM.
    ///
    /// - Parameters:
    ///   - certificateChain: The server's certificate, and those of the authorities between it and a root.
    ///   - privateKey: The key of the certificate, not encrypted.
    ///   - clientAuthorities: The authorities that sign clients' certificates; `nil` if clients need none.
    @_spi(Relay) public init(
        certificateChain: [UInt8],
        privateKey: [UInt8],
        clientAuthorities: [UInt8]?
    ) throws(Fault) {
        do throws(TLSIdentity.Fault) {
            self.identity = try TLSIdentity.read(certificate: certificateChain, key: privateKey, passphrase: nil)
        } catch {
            switch error.code {
            case .notACertificate: throw .certificateChain
            case .keyMismatch: throw .keyMismatch
            case .notAKey, .passphraseMissing, .passphraseWrong, .encryptionTooOld: throw .privateKey
            }
        }
        self.clientAuthorities = clientAuthorities.map { String(decoding: $0, as: UTF8.self) }
        var configuration = TLSConfiguration()
        configuration.certificateChainPEM = self.identity.certificateChainPEM
        configuration.privateKeyPEM = self.identity.privateKeyPEM
        configuration.caPEM = self.clientAuthorities
        configuration.trustsSystemRoots = false
        configuration.requiresClientCertificate = self.clientAuthorities != nil
        configuration.offersHTTP1Only = true
        do throws(WireError) {
            self.context = try TLSContext(.server, configuration: configuration)
        } catch {
            throw error.code == .trustRootsUnreadable ? .clientAuthorities : .notAllowed(error.message)
        }
    }

    /// When the server's certificate expires, in seconds since 1970.
    @_spi(Relay) public var notAfter: Int64 { self.identity.notAfter }

    /// The number of certificates that the server sends.
    @_spi(Relay) public var chainLength: Int {
        self.identity.certificateChainPEM.split(separator: "-----BEGIN CERTIFICATE-----").count
    }

    /// Whether the certificates are the same.
    @_spi(Relay) public func isSame(as other: ServerTLS) -> Bool {
        self.identity == other.identity && self.clientAuthorities == other.clientAuthorities
    }

    /// Creates the handler of one connection.
    ///
    /// - Throws: An error if there is no memory for it.
    @_spi(Relay) public func makeHandler() throws -> TLSServerHandler {
        TLSServerHandler(try TLSSession(context: self.context, peerName: ""))
    }
}
