import Crypto

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A secret from a setting, or from the file that another setting names.
enum SecretText {
    /// Reads the setting, or the file that the setting with the suffix `File` names. Records what is wrong with them.
    ///
    /// - Returns: the text without white space at its ends; nil if neither setting is there, or one is wrong.
    static func read(_ key: String, _ settings: inout SettingsReader) -> String? {
        let fileKey = "\(key)File"
        let text = settings.text(key, isSecret: true)
        guard let file = settings.text(fileKey) else { return text.map(Self.trimmed) }
        guard text == nil else {
            settings.fail(fileKey, "set either this or \(key), not both")
            return nil
        }
        guard let data = try? Data(contentsOf: URL(fileURLWithPath: file)) else {
            settings.fail(fileKey, "the file \(file) cannot be read")
            return nil
        }
        guard let secret = String(data: data, encoding: .utf8).map(Self.trimmed), !secret.isEmpty else {
            settings.fail(fileKey, "the file \(file) is empty or not text")
            return nil
        }
        return secret
    }

    static func digest(_ text: String) -> [UInt8] {
        Array(SHA256.hash(data: Array(text.utf8)))
    }

    /// The key of a webhook's signature: the bytes of the text, or those that base64 after `whsec_` stands for, as the
    /// libraries of Standard Webhooks expect it. Nil if that is not base64.
    static func signingKey(_ text: String) -> [UInt8]? {
        guard text.hasPrefix("whsec_") else { return Array(text.utf8) }
        return Data(base64Encoded: String(text.dropFirst("whsec_".count))).map { Array($0) }
    }

    private static func trimmed(_ text: String) -> String {
        String(text.drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace).reversed())
    }
}
