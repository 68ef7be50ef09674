@_spi(Relay) import APNSPool
import Crypto

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Conversions of secrets.
enum SecretText {
    static func digest(_ text: String) -> [UInt8] {
        Array(SHA256.hash(data: Array(text.utf8)))
    }

    /// Why a text is not a secret.
    struct Problem: Error, Hashable {
        /// What the text looks like, and the remedy. It contains nothing of the secret.
        let message: String

        init(_ message: String) { self.message = message }
    }

    private static let prefix = "whsec_"
    private static let shortestKey = 24

    /// The key of a webhook's signature. It is the bytes of the text or, after the prefix `whsec_`, the bytes that the
    /// Base64 text encodes, as the libraries of Standard Webhooks expect it.
    static func signingKey(_ text: String) throws(Problem) -> [UInt8] {
        try self.checkForm(of: text)
        let lower = text.lowercased()
        for (prefix, kind) in [("whsk_", "private"), ("whpk_", "public")] where lower.contains(prefix) {
            throw Problem(
                "it is the \(kind) key of a signature with Ed25519 (\(prefix)), and the relay signs with HMAC: make a secret "
                    + "for both sides, such as \(self.prefix) and the base64 of 32 random bytes"
            )
        }
        guard text.hasPrefix(self.prefix) else {
            guard !lower.contains(self.prefix) else {
                throw Problem(
                    "something is before \(self.prefix), or it is in capitals: the secret begins with \(self.prefix)"
                )
            }
            return try self.checkedLength(Array(text.utf8), "text")
        }
        let base64 = String(text.dropFirst(self.prefix.count))
        guard let key = Data(base64Encoded: base64) else {
            throw Problem(
                "the text after \(self.prefix) is not base64 with its padding (A-Z, a-z, 0-9, + and /, then =)"
            )
        }
        return try self.checkedLength(Array(key), "base64 after \(self.prefix)")
    }

    private static func checkedLength(_ key: [UInt8], _ form: String) throws(Problem) -> [UInt8] {
        guard key.count >= self.shortestKey else {
            throw Problem(
                "it has \(key.count) bytes as \(form); the webhook needs a secret of at least \(self.shortestKey) bytes"
            )
        }
        return key
    }

    /// Checks that a text has nothing around it that belongs to the place that it was copied from.
    static func checkForm(of text: String) throws(Problem) {
        if let first = text.first, "\"'`“”".contains(first) {
            throw Problem("it begins with a quotation mark: remove the quotation marks")
        }
        if text.unicodeScalars.first == "\u{FEFF}" {
            throw Problem("it begins with a byte order mark: save the file as UTF-8 without one")
        }
        if text.contains(where: \.isNewline) { throw Problem("it has several lines: expected only the secret") }
    }

    /// Checks the form of a bearer token, which a request cannot contain otherwise.
    static func checkToken(_ text: String) throws(Problem) {
        try self.checkForm(of: text)
        if text.lowercased().hasPrefix("bearer ") { throw Problem("it begins with Bearer: remove this word") }
        if text.contains(where: \.isWhitespace) {
            throw Problem("it contains a space, which a bearer token cannot have")
        }
    }

    fileprivate static func trimmed(_ text: String) -> String {
        String(text.drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace).reversed())
    }
}

extension SettingsReader {
    /// Returns a secret from its setting, or from the file of the setting with the suffix `File`.
    ///
    /// - Parameters:
    ///   - text: the secret; nil if it is not set.
    ///   - file: the path of the file; nil if it is not set.
    ///   - key: the setting of the secret.
    ///   - isRequired: whether to report that neither is set.
    /// - Returns: the text without white space at its ends; nil if neither is set or one is invalid, which is reported.
    mutating func secret(_ text: String?, orIn file: String?, _ key: String, isRequired: Bool = true) -> String? {
        let fileKey = "\(key)File"
        guard let file else {
            if isRequired, text == nil, !self.isFound(key), !self.isFound(fileKey) {
                self.complain(key, .missing, "it is missing: set it, or \(self.writtenName(fileKey))")
            }
            return text.map(SecretText.trimmed)
        }
        guard text == nil else {
            self.complain(fileKey, .conflict, "set either this or \(self.writtenName(key)), not both")
            return nil
        }
        guard let data = try? Data(contentsOf: URL(fileURLWithPath: file)) else {
            self.complain(fileKey, .fileUnreadable, "the file '\(file)' cannot be read")
            return nil
        }
        guard let secret = String(data: data, encoding: .utf8).map(SecretText.trimmed), !secret.isEmpty else {
            self.complain(fileKey, .malformed, "the file '\(file)' is empty or not text")
            return nil
        }
        return secret
    }
}
