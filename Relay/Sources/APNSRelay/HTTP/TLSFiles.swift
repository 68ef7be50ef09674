@_spi(Relay) import APNSTransport
import PushQueue

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The server's certificate and key, and the authorities of the callers' certificates, read from PEM files.
struct TLSFiles {
    let server: ServerTLS

    /// Reads the files; nil if the settings name none.
    init?(_ settings: HTTPSettings) throws(RelayAPIError) {
        let authoritiesFile = settings.clientAuthoritiesFile
        let files = [settings.certificateChainFile, settings.privateKeyFile, authoritiesFile]
        if files.allSatisfy({ $0 == nil }) { return nil }
        guard let chainFile = settings.certificateChainFile, let keyFile = settings.privateKeyFile else {
            throw Self.error("TLS needs both the file of a certificate chain and the file of its private key.")
        }
        let texts = (Self.contents(chainFile), Self.contents(keyFile), authoritiesFile.map(Self.contents))
        do throws(ServerTLS.Fault) {
            self.server = try ServerTLS(
                certificateChain: texts.0,
                privateKey: texts.1,
                clientAuthorities: texts.2
            )
        } catch {
            switch error {
            case .certificateChain:
                throw Self.error("\(chainFile): expected a readable file with at least one certificate in PEM form.")
            case .privateKey:
                throw Self.error("\(keyFile): expected a readable file with an unencrypted private key in PEM form.")
            case .keyMismatch:
                throw Self.error("\(keyFile): expected the private key of a certificate in \(chainFile).")
            case .clientAuthorities:
                let file = authoritiesFile ?? ""
                throw Self.error("\(file): expected a readable file with at least one certificate in PEM form.")
            case .notAllowed(let reason):
                throw Self.error("\(chainFile): OpenSSL does not accept this certificate: \(reason)")
            }
        }
    }

    /// When the server's certificate expires. Clients then refuse to connect.
    var expiry: QueueTime { QueueTime(secondsSince1970: self.server.notAfter) }

    /// The number of certificates that the server sends.
    var chainLength: Int { self.server.chainLength }

    /// Whether the certificates are the same.
    func isSame(as other: TLSFiles) -> Bool { self.server.isSame(as: other.server) }

    /// The contents of a file; empty if it cannot be read.
    private static func contents(_ path: String) -> [UInt8] {
        (try? Data(contentsOf: URL(filePath: path))).map { Array($0) } ?? []
    }

    private static func error(_ message: String) -> RelayAPIError {
        RelayAPIError(code: .tlsFileInvalid, message: message)
    }
}
