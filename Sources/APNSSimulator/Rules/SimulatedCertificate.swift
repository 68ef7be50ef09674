internal import APNSTransport

/// A generated client certificate with the contents of Apple's certificates. For tests and demonstrations.
public struct SimulatedCertificate: Sendable {
    let identity: TLSIdentity

    /// The certificate (PEM).
    public var certificatePEM: String { self.identity.certificateChainPEM }
    /// Its private key (PEM, not encrypted).
    public var privateKeyPEM: String { self.identity.privateKeyPEM }
    /// The topics in the certificate.
    public var topics: [String] { self.identity.topics }
    /// The end of its validity, in seconds since 1970.
    public var notAfter: Int64 { self.identity.notAfter }

    /// Certificate and key as a `.p12` file with OpenSSL 3's default encryption (AES-256, PBKDF2).
    ///
    /// - Throws: `SimulatorError` with the code `startFailed` if OpenSSL cannot create it.
    public func pkcs12(passphrase: String) throws(SimulatorError) -> [UInt8] {
        do {
            return try self.identity.pkcs12(passphrase: passphrase)
        } catch {
            throw SimulatorError(code: .startFailed, message: "no PKCS#12 file could be made: \(error.detail)")
        }
    }
}

extension Simulator {
    /// Creates a client certificate that this simulator accepts if its credential is `clientCertificate`.
    ///
    /// Other simulators do not accept it, because each has its own certificate authority.
    ///
    /// - Parameters:
    ///   - topics: The topics of the certificate. The first is the subject's UID; if there are several, all are also in
    ///     Apple's extension 1.2.840.113635.100.6.3.6. The simulator does not compare them with pushes.
    ///   - validFrom: The start of its validity, in seconds from now.
    ///   - validTo: The end of its validity, in seconds from now; negative for an expired certificate.
    /// - Throws: `SimulatorError` with the code `startFailed` if OpenSSL cannot create it.
    public func makeClientCertificate(
        topics: [String] = ["com.example.app"],
        validFrom: Int = -86_400,
        validTo: Int = 365 * 86_400
    ) throws(SimulatorError) -> SimulatedCertificate {
        do {
            return SimulatedCertificate(
                identity: try self.identities.issueClient(topics: topics, validFrom: validFrom, validTo: validTo)
            )
        } catch {
            throw SimulatorError(code: .startFailed, message: "no client certificate could be made: \(error.message)")
        }
    }
}
