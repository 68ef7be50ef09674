import APNSBasics
import APNSTransport

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
                    + "Make a new one in the developer portal."
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
        // The tool and the settings replace the names of properties by the names of options, variables and keys.
        let giveKey = "Give the file of its key with authentication.keyFile, or a .p12 file that holds both."
        let passphrase = CredentialInput.bytes([], setting: "passphrase")
        return switch fault.code {
        case .notACertificate:
            self.certificate.error(.notACertificate, self.notACertificate(fault.detail))
        case .notAKey where self.key != nil:
            key.error(
                .notAKey,
                "There is no readable private key: \(Self.otherContent(key) ?? fault.detail). You create the key "
                    + "together with the certificate request; Apple does not have it."
            )
        case .notAKey:
            key.error(
                .notAKey,
                "It holds a certificate, but not its private key. You create the key together with the certificate "
                    + "request; the file from the developer portal does not contain it. "
                    + (self.isPKCS12 ? "Export the certificate and its key together." : giveKey)
            )
        case .passphraseMissing:
            passphrase.error(
                .keyEncrypted,
                "The key is encrypted, and no passphrase was given, or an empty one. Give it with "
                    + "authentication.passphrase."
            )
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
                    + (self.isPKCS12
                        ? "Convert it with 'openssl pkcs12 -legacy -in OLD.p12 -nodes -out apns.pem', then give "
                            + "apns.pem as the certificate's file."
                        : "Convert it with 'openssl pkey -provider legacy -provider default -in OLD.pem -out NEW.pem', "
                            + "then give NEW.pem.")
            )
        case .keyMismatch:
            key.error(
                .keyMismatch,
                "The private key does not belong to this certificate. Give the key that you used for the "
                    + "certificate request with authentication.keyFile."
            )
        }
    }

    /// What the file holds instead of a key; nil if that cannot be told.
    private static func otherContent(_ input: CredentialInput) -> String? {
        guard let bytes = try? input.read() else { return nil }
        let label = PEMText.blocks(in: PEMText.plain(bytes)).first?.label ?? ""
        switch DER.content(of: bytes) {
        case .pkcs12: return "it is a PKCS#12 file"
        case .certificateRequest: return "it is a certificate request"
        case .certificate: return "it is a certificate"
        case nil where label.hasSuffix("CERTIFICATE REQUEST"): return "it is a certificate request"
        case nil where label.hasSuffix("CERTIFICATE"): return "it is a certificate"
        case nil: return nil
        }
    }

    private func notACertificate(_ detail: String) -> String {
        let bytes: [UInt8]
        do { bytes = try self.certificate.read() } catch { return "It contains no certificate: \(detail)." }
        let labels = PEMText.blocks(in: PEMText.plain(bytes)).map(\.label)
        if self.isPKCS12, labels.contains("CERTIFICATE") {
            return "It is a certificate in PEM form, not a PKCS#12 file. Give it in a file whose name does not end in "
                + ".p12 or .pfx."
        }
        if labels.contains(where: { $0.hasSuffix("CERTIFICATE REQUEST") }) {
            return "It is a certificate request. Upload it to the developer portal, and give the certificate that you "
                + "download there."
        }
        if labels.contains(where: { $0.hasSuffix("PRIVATE KEY") }) {
            return "It is a private key and holds no certificate. Give the certificate here, and its key with "
                + "authentication.keyFile. A key that signs provider tokens needs no certificate."
        }
        if self.isPKCS12 {
            return "It is not a PKCS#12 file, or a part of it is missing: \(detail). If it is PEM text, give it as a "
                + "certificate in PEM form, in a file whose name does not end in .p12 or .pfx."
        }
        return "It contains no certificate in PEM or DER form: \(detail). If it is a PKCS#12 file, give it as PKCS#12: "
            + "in settings, its name must end in .p12 or .pfx."
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
