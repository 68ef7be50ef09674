import HTTP2Wire

/// The source of a client certificate and its key.
enum CertificateInput: Sendable {
    case files(String, key: String?, passphrase: String?)
    case bytes([UInt8], key: [UInt8], passphrase: String?)
    case pkcs12File(String, passphrase: String)
    case pkcs12([UInt8], passphrase: String)

    /// The files that the certificate and its key are read from.
    var paths: [String] {
        switch self {
        case .files(let certificate, let key, _): [certificate] + (key.map { [$0] } ?? [])
        case .pkcs12File(let path, _): [path]
        case .bytes, .pkcs12: []
        }
    }

    /// Reads and checks the certificate and its key. Blocks while files are read.
    ///
    /// - Parameter wallNow: Seconds since 1970.
    func read(wallNow: Int64) throws(APNSConfigurationError) -> TLSIdentity {
        let identity = try self.identity()
        guard identity.notAfter > wallNow else {
            throw APNSConfigurationError(
                .certificateExpired,
                setting: self.setting,
                message: "The certificate '\(identity.commonName)' expired on \(CivilDate.text(identity.notAfter)). "
                    + "Make a new one in the developer portal, or use a .p8 key, which does not expire."
            )
        }
        guard identity.notBefore <= wallNow else {
            throw APNSConfigurationError(
                .certificateNotYetValid,
                setting: self.setting,
                message: "The certificate '\(identity.commonName)' is not valid before "
                    + "\(CivilDate.text(identity.notBefore)). Check this machine's clock."
            )
        }
        return identity
    }

    private var setting: String {
        switch self {
        case .files: "authentication.certificateFile"
        case .bytes: "authentication.certificateBytes"
        case .pkcs12File: "authentication.pkcs12File"
        case .pkcs12: "authentication.pkcs12Bytes"
        }
    }

    private var keySetting: String {
        switch self {
        case .files(_, let key, _): key == nil ? self.setting : "authentication.keyFile"
        case .bytes: "authentication.privateKeyBytes"
        case .pkcs12File, .pkcs12: self.setting
        }
    }

    private func identity() throws(APNSConfigurationError) -> TLSIdentity {
        switch self {
        case .files(let path, let keyPath, let passphrase):
            let certificate = try KeyFile.read(path, setting: self.setting, kind: "certificate's file")
            var key = certificate
            if let keyPath { key = try KeyFile.read(keyPath, setting: self.keySetting, kind: "certificate's key file") }
            return try self.identity(certificate, key, passphrase)
        case .bytes(let certificate, let key, let passphrase):
            return try self.identity(certificate, key, passphrase)
        case .pkcs12File(let path, let passphrase):
            return try self.identity(try KeyFile.read(path, setting: self.setting, kind: ".p12 file"), passphrase)
        case .pkcs12(let bytes, let passphrase):
            return try self.identity(bytes, passphrase)
        }
    }

    private func identity(
        _ certificate: [UInt8],
        _ key: [UInt8],
        _ passphrase: String?
    ) throws(APNSConfigurationError) -> TLSIdentity {
        do {
            return try TLSIdentity.read(
                certificate: PrivateKeyText.plainPEM(certificate),
                key: PrivateKeyText.plainPEM(key),
                passphrase: passphrase
            )
        } catch {
            throw self.error(error)
        }
    }

    private func identity(_ pkcs12: [UInt8], _ passphrase: String) throws(APNSConfigurationError) -> TLSIdentity {
        do {
            return try TLSIdentity.read(pkcs12: pkcs12, passphrase: passphrase)
        } catch {
            throw self.error(error)
        }
    }

    private var isPKCS12: Bool {
        switch self {
        case .pkcs12File, .pkcs12: true
        case .files, .bytes: false
        }
    }

    private func error(_ fault: TLSIdentity.Fault) -> APNSConfigurationError {
        switch fault.code {
        case .notACertificate:
            APNSConfigurationError(
                .notACertificate,
                setting: self.setting,
                message: self.isPKCS12
                    ? "It is not a PKCS#12 file, or a part of it is missing: \(fault.detail). "
                        + "If it is PEM text, give it as a certificate in PEM form."
                    : "It contains no certificate in PEM or DER form: \(fault.detail). "
                        + "If it is a .p12 file, give it as PKCS#12."
            )
        case .notAKey:
            APNSConfigurationError(
                .notAKey,
                setting: self.keySetting,
                message: "There is no readable private key: \(fault.detail). You create the key together with the "
                    + "certificate request; Apple does not have it."
            )
        case .passphraseMissing:
            APNSConfigurationError(
                .keyEncrypted,
                setting: "authentication.passphrase",
                message: "The key is encrypted, and no passphrase was given."
            )
        case .passphraseWrong:
            APNSConfigurationError(
                .passphraseWrong,
                setting: "authentication.passphrase",
                message: "The passphrase is wrong, or the encrypted data is damaged. Give the passphrase that you "
                    + "chose when you exported the file."
            )
        case .encryptionTooOld:
            APNSConfigurationError(
                .encryptionTooOld,
                setting: self.isPKCS12 ? self.setting : self.keySetting,
                message:
                    "Its encryption is old (such as RC2), and OpenSSL 3 can read it only with the legacy provider. "
                    + "Convert it with 'openssl pkcs12 -legacy -in OLD.p12 -nodes -out apns.pem', then give "
                    + "apns.pem as the certificate's file."
            )
        case .keyMismatch:
            APNSConfigurationError(
                .keyMismatch,
                setting: self.keySetting,
                message: "The private key does not belong to this certificate. Give the key that you used for the "
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
