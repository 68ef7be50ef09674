import APNSPool
import ArgumentParser
import Crypto

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// `apns provider-token`
struct ProviderTokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "provider-token",
        abstract: "Prints a provider token, for use with curl.",
        discussion: """
            APNs takes it for an hour. Do not make a new one for each call: APNs answers too many of them with 429 \
            TooManyProviderTokenUpdates.

            Keep one in a variable:

              JWT=$(apns provider-token --key AuthKey_9UC9ZLQ8YW.p8 \\
                --team-id ABBM6U9RM5)

            And send with it:

              curl --http2 -H "authorization: bearer $JWT" \\
                -H "apns-topic: com.grasscove.Fern" -H "apns-push-type: alert" \\
                -d '{"aps":{"alert":"Hello"}}' \\
                https://api.push.apple.com/3/device/740f4707bebcf74f
            """
    )

    @OptionGroup var keyOptions: KeyOptions

    func validate() throws {
        _ = try self.key()
    }

    func run() async throws {
        let key = try self.key()
        try Self.check(key)
        Standard.output.print(try Self.token(key, issuedAt: Int64(Date().timeIntervalSince1970)))
    }

    private func key() throws -> KeyOptions.Key {
        guard let key = try self.keyOptions.resolved(.process) else {
            throw UsageError("--key (or APNS_KEY_FILE) is missing: the .p8 file that signs the token.")
        }
        return key
    }

    /// Has the library look at the key and the ids, for its rules and its words. Nothing is sent.
    private static func check(_ key: KeyOptions.Key) throws {
        do {
            _ = try APNSClient(authentication: key.authentication, logger: .plain(isVerbose: false))
        } catch {
            // Trust roots are not needed here, and looked at after the key.
            if error.code != .trustRootsUnusable { throw error }
        }
    }

    /// RFC 7515 in compact form with ES256: header, claims and the raw signature, each in base64url.
    private static func token(_ key: KeyOptions.Key, issuedAt: Int64) throws -> String {
        let bytes = try Files.contents(of: key.file, option: "--key", limit: 64 * 1024)
        let privateKey: P256.Signing.PrivateKey
        do {
            privateKey = try P256.Signing.PrivateKey(pemRepresentation: String(decoding: bytes, as: UTF8.self))
        } catch {
            throw APNSConfigurationError(
                .notAKey,
                setting: "authentication.keyFile",
                message: "'\(key.file)' is not in PEM form, with a line -----BEGIN PRIVATE KEY-----."
            )
        }
        let keyID = key.id ?? Self.keyID(inNameOf: key.file) ?? ""
        let header = #"{"alg":"ES256","kid":"\#(Self.trimmed(keyID))"}"#
        let claims = #"{"iss":"\#(Self.trimmed(key.teamID))","iat":\#(issuedAt)}"#
        let input = Self.base64URL(Data(header.utf8)) + "." + Self.base64URL(Data(claims.utf8))
        let signature = try privateKey.signature(for: Data(input.utf8))
        return input + "." + Self.base64URL(signature.rawRepresentation)
    }

    /// The ten characters of `AuthKey_XXXXXXXXXX.p8`.
    private static func keyID(inNameOf path: String) -> String? {
        guard let name = path.split(separator: "/").last, name.hasPrefix("AuthKey_") else { return nil }
        return String(name.dropFirst("AuthKey_".count).prefix(10))
    }

    private static func trimmed(_ text: String) -> String {
        text.trimmingCharacters(while: \.isWhitespace)
    }

    private static func base64URL(_ data: Data) -> String {
        data.base64EncodedString()
            .replacing("+", with: "-")
            .replacing("/", with: "_")
            .replacing("=", with: "")
    }
}

extension String {
    func trimmingCharacters(while isUnwanted: (Character) -> Bool) -> String {
        var rest = self[...]
        while let first = rest.first, isUnwanted(first) { rest = rest.dropFirst() }
        while let last = rest.last, isUnwanted(last) { rest = rest.dropLast() }
        return String(rest)
    }
}
