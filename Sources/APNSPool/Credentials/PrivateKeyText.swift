import APNSBasics
import APNSTransport

/// Parses a private key as users supply it: the text of a `.p8` file (PEM, RFC 7468, around PKCS#8, RFC 5958), possibly
/// altered by an environment variable.
///
/// Accepts CRLF, missing line ends, `\n` as two characters, surrounding quotes and blanks, a byte order mark, and
/// base64 around the whole text. Also accepts the key in DER. Any other input is rejected with an error that identifies
/// it.
enum PrivateKeyText {
    /// - Parameter setting: The setting that the errors name.
    /// - Throws: `missing`, `notAKey`, `keyEncrypted`, `keyDamaged` or `keyTypeWrong`.
    static func key(in text: [UInt8], setting: String) throws(APNSConfigurationError) -> ES256PrivateKey {
        do throws(Fault) {
            return try self.key(in: text)
        } catch {
            throw APNSConfigurationError(error.code, setting: setting, message: error.message)
        }
    }

    /// An error that does not name its setting yet.
    private struct Fault: Error {
        var code: APNSConfigurationError.Code
        var message: String

        init(_ code: APNSConfigurationError.Code, _ message: String) {
            self.code = code
            self.message = message
        }
    }

    private static func key(in text: [UInt8]) throws(Fault) -> ES256PrivateKey {
        let text = PEMText.plain(text)
        if text.first == DER.sequence { return try self.key(inDER: text) }
        let blocks = PEMText.blocks(in: text)
        guard let block = blocks.first(where: { $0.label.hasSuffix("PRIVATE KEY") }) ?? blocks.first else {
            guard !PEMText.digits(text).isEmpty else {
                throw Fault(.missing, "It is empty. It must hold the text of the .p8 file from the developer portal.")
            }
            guard !self.isPath(text) else {
                throw Fault(
                    .notAKey,
                    "It is the path of a file, and the text of the key is expected here. Give the path with "
                        + "authentication.keyFile."
                )
            }
            throw Fault(
                .notAKey,
                "It is not a private key in PEM form: there is no '-----BEGIN PRIVATE KEY-----' line. "
                    + "Give the .p8 file from the developer portal as it is."
            )
        }
        guard block.isComplete else {
            throw Fault(
                .keyDamaged,
                "It is cut off: the line '-----END \(block.label)-----' is missing. "
                    + "Download or copy it again (.env files often keep the first line only)."
            )
        }
        guard block.label.hasSuffix("PRIVATE KEY") else {
            if block.label.hasSuffix("CERTIFICATE") { throw self.certificate("a certificate") }
            if block.label.hasSuffix("PUBLIC KEY") {
                throw Fault(.notAKey, "It is a public key. Signing needs the private key in the .p8 file.")
            }
            throw Fault(.notAKey, "It is a PEM text of another kind ('\(block.label)'). Give the .p8 file of the key.")
        }
        if block.label.hasPrefix("ENCRYPTED") || block.isEncrypted { throw self.encrypted }
        if block.label.hasPrefix("OPENSSH") { throw self.wrongType("an SSH key") }
        guard let der = Base64.decode(PEMText.digits(block.body)), !der.isEmpty else {
            throw Fault(.keyDamaged, "The text between its BEGIN and END lines is not base64. \(self.copyAgain)")
        }
        return try self.key(inDER: der)
    }

    /// Whether the text is not a key but where it may be found. A key of this form would be longer.
    private static func isPath(_ text: [UInt8]) -> Bool {
        let text = String(decoding: text, as: UTF8.self).withoutBlanksAround
        return text.utf8.count < 300 && !text.contains("\n")
            && ([".p8", ".pem"].contains { text.lowercased().hasSuffix($0) }
                || ["/", "./", "../", "~/"].contains { text.hasPrefix($0) })
    }

    private static func key(inDER bytes: [UInt8]) throws(Fault) -> ES256PrivateKey {
        do throws(ES256KeyFault) {
            return try ES256PrivateKey(der: bytes)
        } catch {
            switch error {
            case .encrypted:
                throw self.encrypted
            case .wrongAlgorithm(let name):
                throw self.wrongType("a key of the type \(name)")
            case .wrongCurve(let name):
                throw self.wrongType("an EC key on the curve \(name)")
            case .unreadable:
                switch DER.content(of: bytes) {
                case .certificate: throw self.certificate("a certificate")
                case .pkcs12: throw self.certificate("a PKCS#12 file, which holds a certificate")
                case .certificateRequest, nil: break
                }
                throw Fault(
                    .keyDamaged,
                    "Its bytes are not a complete private key: it is damaged or cut off. \(self.copyAgain)"
                )
            case .inconsistent:
                throw Fault(
                    .keyDamaged,
                    "It looks like a P-256 key, but its numbers are invalid or do not match. \(self.copyAgain)"
                )
            }
        }
    }

    private static func certificate(_ found: String) -> Fault {
        Fault(
            .notAKey,
            "It is \(found), not a key. A provider token needs the .p8 file of a key, made under 'Keys' in the developer "
                + "portal. To send with a certificate instead, give it as authentication.certificateFile."
        )
    }

    private static let copyAgain = "Copy the complete .p8 file again."

    private static let encrypted = Fault(
        .keyEncrypted,
        "It is protected by a password. Keys from the developer portal are not: give that .p8 file, "
            + "or remove the password with 'openssl pkcs8 -in KEY -topk8 -nocrypt'."
    )

    private static func wrongType(_ found: String) -> Fault {
        Fault(
            .keyTypeWrong,
            "It is \(found), but APNs accepts EC keys on the curve P-256 only. "
                + "Give the .p8 file of a key made for Apple Push Notifications service in the developer portal."
        )
    }
}
