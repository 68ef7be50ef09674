internal import HTTP2Wire

/// A client certificate made up on the spot, with what Apple's have in them. For tests and demonstrations.
public struct SimulatedCertificate: Sendable {
    let identity: TLSIdentity

    /// The certificate (PEM).
    public var certificatePEM: String { self.identity.certificateChainPEM }
    /// Its private key (PEM, not encrypted).
    public var privateKeyPEM: String { self.identity.privateKeyPEM }
    /// The topics that are in it.
    public var topics: [String] { self.identity.topics }
    /// Until when it is valid, in seconds since 1970.
    public var notAfter: Int64 { self.identity.notAfter }

    /// Certificate and key as a `.p12` file, encrypted as OpenSSL 3 does it by default (AES-256, PBKDF2).
    ///
    /// Throws `SimulatorError` with the code `startFailed` when OpenSSL cannot make it.
    public func pkcs12(passphrase: String) throws(SimulatorError) -> [UInt8] {
        do {
            return try self.identity.pkcs12(passphrase: passphrase)
        } catch {
            throw SimulatorError(code: .startFailed, message: "no PKCS#12 file could be made: \(error.detail)")
        }
    }
}

extension Simulator {
    /// Makes a client certificate that this simulator accepts when its credential is `clientCertificate`. Another
    /// simulator's does not: its authority is another one.
    ///
    /// - Parameters:
    ///   - topics: What the certificate is for. The first is the subject's UID; with more than one, all are in Apple's
    ///     extension 1.2.840.113635.100.6.3.6, too. The simulator does not compare them with pushes.
    ///   - validFrom: Seconds from now.
    ///   - validTo: Seconds from now; negative for a certificate that has expired.
    /// - Throws: `SimulatorError` with the code `startFailed` when OpenSSL cannot make it.
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
