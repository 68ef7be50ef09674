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

    /// The key of a webhook's signature. It is the bytes of the text or, after the prefix `whsec_`, the bytes that the
    /// Base64 text encodes, as the libraries of Standard Webhooks expect it. Nil if that text is not Base64.
    static func signingKey(_ text: String) -> [UInt8]? {
        guard text.hasPrefix("whsec_") else { return Array(text.utf8) }
        return Data(base64Encoded: String(text.dropFirst("whsec_".count))).map { Array($0) }
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
