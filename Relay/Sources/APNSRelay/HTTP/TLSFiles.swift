import Hummingbird
import HummingbirdCore
import HummingbirdTLS
import NIOSSL
import PushQueue

/// The server's certificate and key, and the authorities of the callers' certificates, read from PEM files.
struct TLSFiles {
    private let configuration: TLSConfiguration
    private let certificateFile: String
    private let keyFile: String
    /// The server's certificate, and those of the authorities between it and a root.
    let chain: [NIOSSLCertificate]

    /// Reads the files; nil if the settings name none.
    init?(_ settings: HTTPSettings) throws(RelayAPIError) {
        let files = [settings.certificateChainFile, settings.privateKeyFile, settings.clientAuthoritiesFile]
        if files.allSatisfy({ $0 == nil }) { return nil }
        guard let certificateFile = settings.certificateChainFile, let keyFile = settings.privateKeyFile else {
            throw Self.error("TLS needs both the file of a certificate chain and the file of its private key.")
        }
        self.certificateFile = certificateFile
        self.keyFile = keyFile
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
            configuration = .makeServerConfigurationWithMTLS(
                certificateChain: chain.map { .certificate($0) },
                privateKey: .privateKey(key),
                trustRoots: .certificates(try Self.certificates(authoritiesFile, "certificate authority"))
            )
        } else {
            configuration = .makeServerConfiguration(
                certificateChain: chain.map { .certificate($0) },
                privateKey: .privateKey(key)
            )
        }
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        self.configuration = configuration
        do {
            _ = try NIOSSLContext(configuration: configuration)
        } catch {
            throw Self.error("\(keyFile): expected the private key of the first certificate in \(certificateFile).")
        }
    }

    /// When the server's certificate expires. Clients then refuse to connect.
    var expiry: QueueTime? { self.chain.first.map { QueueTime(secondsSince1970: Int64($0.notValidAfter)) } }

    /// Adds TLS to an HTTP server.
    func server(_ base: HTTPServerBuilder) throws(RelayAPIError) -> HTTPServerBuilder {
        do {
            return try .tls(base, tlsConfiguration: self.configuration)
        } catch {
            throw Self.error("\(self.certificateFile) and \(self.keyFile) cannot be used for TLS: \(error)")
        }
    }

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
