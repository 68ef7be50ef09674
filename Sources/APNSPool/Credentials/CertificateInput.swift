import APNSBasics
import HTTP2Wire

/// The source of a client certificate and its key.
struct CertificateInput: Sendable {
    /// The certificate, or the PKCS#12 data with the certificate and its key.
    let certificate: CredentialInput
    /// Nil: the key is beside the certificate.
    var key: CredentialInput?
    let passphrase: String?
    var isPKCS12 = false

    /// The files that the certificate and its key are read from.
    var paths: [String] { [self.certificate.path, self.key?.path].compactMap(\.self) }

    /// Reads and checks the certificate and its key. Blocks while files are read.
    ///
    /// - Parameter wallNow: Seconds since 1970.
    func read(wallNow: Int64) throws(APNSConfigurationError) -> TLSIdentity {
        let identity = try self.identity()
        let name = identity.commonName
        guard identity.notAfter > wallNow else {
            throw self.certificate.error(
                .certificateExpired,
                "The certificate '\(name)' expired on \(CivilDate(secondsSince1970: identity.notAfter)). "
                    + "Make a new one in the developer portal, or use a .p8 key, which does not expire."
            )
        }
        guard identity.notBefore <= wallNow else {
            throw self.certificate.error(
                .certificateNotYetValid,
                "The certificate '\(name)' is not valid before \(CivilDate(secondsSince1970: identity.notBefore)). "
                    + "Check this machine's clock."
            )
        }
        return identity
    }

    private func identity() throws(APNSConfigurationError) -> TLSIdentity {
        let certificate = try self.certificate.read()
        let key = try self.key?.read() ?? certificate
        do throws(TLSIdentity.Fault) {
            if self.isPKCS12 { return try TLSIdentity.read(pkcs12: certificate, passphrase: self.passphrase ?? "") }
            return try TLSIdentity.read(
                certificate: PEMText.plain(certificate),
                key: PEMText.plain(key),
                passphrase: self.passphrase
            )
        } catch {
            throw self.error(error)
        }
    }

    private func error(_ fault: TLSIdentity.Fault) -> APNSConfigurationError {
        let key = self.key ?? self.certificate
        let passphrase = CredentialInput.bytes([], setting: "passphrase")
        return switch fault.code {
        case .notACertificate:
            self.certificate.error(
                .notACertificate,
                self.isPKCS12
                    ? "It is not a PKCS#12 file, or a part of it is missing: \(fault.detail). "
                        + "If it is PEM text, give it as a certificate in PEM form."
                    : "It contains no certificate in PEM or DER form: \(fault.detail). "
                        + "If it is a .p12 file, give it as PKCS#12."
            )
        case .notAKey:
            key.error(
                .notAKey,
                "There is no readable private key: \(fault.detail). You create the key together with the "
                    + "certificate request; Apple does not have it."
            )
        case .passphraseMissing:
            passphrase.error(.keyEncrypted, "The key is encrypted, and no passphrase was given.")
        case .passphraseWrong:
            passphrase.error(
                .passphraseWrong,
                "The passphrase is wrong, or the encrypted data is damaged. Give the passphrase that you "
                    + "chose when you exported the file."
            )
        case .encryptionTooOld:
            key.error(
                .encryptionTooOld,
                "Its encryption is old (such as RC2), and OpenSSL 3 can read it only with the legacy provider. "
                    + "Convert it with 'openssl pkcs12 -legacy -in OLD.p12 -nodes -out apns.pem', then give "
                    + "apns.pem as the certificate's file."
            )
        case .keyMismatch:
            key.error(
                .keyMismatch,
                "The private key does not belong to this certificate. Give the key that you used for the "
                    + "certificate request."
            )
        }
    }
}

extension APNSConfigurationError.Code {
    /// The text or file is not a certificate.
    public static let notACertificate = APNSConfigurationError.Code(rawValue: "not-a-certificate")
    /// The passphrase does not open the key or the PKCS#12 file.
    public static let passphraseWrong = APNSConfigurationError.Code(rawValue: "passphrase-wrong")
    /// The key or the PKCS#12 file is encrypted with an algorithm that OpenSSL 3 no longer supports by default.
    public static let encryptionTooOld = APNSConfigurationError.Code(rawValue: "encryption-too-old")
    /// The private key does not belong to the certificate.
    public static let keyMismatch = APNSConfigurationError.Code(rawValue: "key-mismatch")
    /// The certificate has expired.
    public static let certificateExpired = APNSConfigurationError.Code(rawValue: "certificate-expired")
    /// The certificate is not valid yet, or this machine's clock is wrong.
    public static let certificateNotYetValid = APNSConfigurationError.Code(rawValue: "certificate-not-yet-valid")
}
