import APNSSimulator
import Foundation
import APNSTransport
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Bytes that a fuzzer chooses, instead of those of settings, keys and files that processes share.
struct FuzzTests {
    @Test("Settings with any content make a configuration or an error that names each fault") func fuzzSettings() throws
    {
        try Fuzz.run("settings") { bytes in
            let text = Array(bytes.dropFirst())
            do {
                let source: APNSSettingsSource
                if (bytes.first ?? 0) & 1 == 0 {
                    source = try JSONSettings.source(text, name: "fuzz")
                } else {
                    let lines = text.split(separator: 0x0A).map { String(decoding: $0, as: UTF8.self) }
                    let pairs = lines.map { line -> (String, String) in
                        let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                        return ("APNS_\(parts[0])", String(parts.last ?? ""))
                    }
                    source = .environment(Dictionary(pairs, uniquingKeysWith: { $1 }))
                }
                var draft = SettingsDraft(APNSClientConfiguration(authentication: .withoutToken))
                // Without `readFiles`, which would open any path.
                draft.read([source])
                if let error = draft.error { throw error }
            } catch let error as APNSSettingsError {
                #expect(!error.faults.isEmpty && !"\(error)".isEmpty)
            }
        }
    }

    @Test("The text of a key is read, or the error says what it is") func fuzzKeyText() throws {
        try Fuzz.run("key-text") { bytes in
            do throws(APNSConfigurationError) {
                _ = try PrivateKeyText.key(in: bytes, setting: "authentication")
            } catch {
                #expect(error.setting == "authentication" && !error.message.isEmpty)
            }
        }
    }

    @Test("A shared token file is trusted only if it is whole, and dates of responses are read or ignored")
    func fuzzTokenFile() throws {
        try Fuzz.run("token-file") { bytes in
            if let token = SharedTokenFile.token(in: bytes[...]) {
                #expect(try SharedTokenFile.bytes(of: token) == bytes)
            }
            let text = String(decoding: bytes, as: UTF8.self)
            _ = ClockSkew.skewHint(dateHeader: text, wallNow: 1_800_000_000)
            let identifiers = try TokenIdentifiers(keyID: "ABC123DEFG", teamID: "ABCDE12345", keyFile: nil)
            _ = SigningKey(identifiers: identifiers, publicKey: [UInt8](repeating: 1, count: 64)).hasSigned(text)
        }
    }
}
