import NIOSSL
import PushQueue

/// The server's certificate and key, and the authorities of the callers' certificates, read from PEM files.
struct TLSFiles {
    let context: NIOSSLContext
    /// The server's certificate, and those of the authorities between it and a root.
    let chain: [NIOSSLCertificate]
    private let authorities: [NIOSSLCertificate]

    /// Reads the files; nil if the settings name none.
    init?(_ settings: HTTPSettings) throws(RelayAPIError) {
        let files = [settings.certificateChainFile, settings.privateKeyFile, settings.clientAuthoritiesFile]
        if files.allSatisfy({ $0 == nil }) { return nil }
        guard let certificateFile = settings.certificateChainFile, let keyFile = settings.privateKeyFile else {
            throw Self.error("TLS needs both the file of a certificate chain and the file of its private key.")
        }
        let chain = try Self.certificates(certificateFile, "certificate chain")
        self.chain = chain
        let key: NIOSSLPrivateKey
        do {
            key = try NIOSSLPrivateKey(file: keyFile, format: .pem)
        } catch {
            throw Self.error("\(keyFile): expected a readable file with an unencrypted private key in PEM form.")
        }
        var configuration: TLSConfiguration
        if let authoritiesFile = settings.clientAuthoritiesFile {
            self.authorities = try Self.certificates(authoritiesFile, "certificate authority")
            configuration = .makeServerConfigurationWithMTLS(
                certificateChain: chain.map { .certificate($0) },
                privateKey: .privateKey(key),
                trustRoots: .certificates(self.authorities)
            )
        } else {
            self.authorities = []
            configuration = .makeServerConfiguration(
                certificateChain: chain.map { .certificate($0) },
                privateKey: .privateKey(key)
            )
        }
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        do {
            self.context = try NIOSSLContext(configuration: configuration)
        } catch {
            throw Self.error("\(keyFile): expected the private key of the first certificate in \(certificateFile).")
        }
    }

    /// When the server's certificate expires. Clients then refuse to connect.
    var expiry: QueueTime? { self.chain.first.map { QueueTime(secondsSince1970: Int64($0.notValidAfter)) } }

    /// Whether the certificates are the same.
    func isSame(as other: TLSFiles) -> Bool { self.chain == other.chain && self.authorities == other.authorities }

    private static func certificates(_ file: String, _ kind: String) throws(RelayAPIError) -> [NIOSSLCertificate] {
        let certificates = try? NIOSSLCertificate.fromPEMFile(file)
        guard let certificates, !certificates.isEmpty else {
            throw Self.error("\(file): expected a readable file with at least one \(kind) in PEM form.")
        }
        return certificates
    }

    private static func error(_ message: String) -> RelayAPIError {
        RelayAPIError(code: .tlsFileInvalid, message: message)
    }
}
