import APNSPool
import ArgumentParser

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
        usage: "apns provider-token [<options>]",
        discussion: """
            APNs accepts it for an hour. Do not make a new one for each call: if there are too many, APNs responds \
            with 429 TooManyProviderTokenUpdates. With --token-file, a new one is made only when the one in the file \
            is too old.

            Keep one in a variable:

              JWT=$(apns provider-token --key AuthKey_9UC9ZLQ8YW.p8 \\
                --team-id ABBM6U9RM5)

            And send with it:

              curl --http2 -H "authorization: bearer $JWT" \\
                -H "apns-topic: com.grasscove.Fern" -H "apns-push-type: alert" \\
                -d '{"aps":{"alert":"Hello"}}' \\
                https://api.push.apple.com/3/device/740f4707bebcf74f

            Exit status:
              0   a token was printed
              64  an option is wrong
              78  the key cannot be used
            """
    )

    @OptionGroup var keyOptions: KeyOptions

    @Flag(help: "Print a JSON object with the token, its ids and when it was made.")
    var json = false

    func validate() throws {
        _ = try self.settings()
    }

    func run() async throws {
        let settings = try self.settings().checked()
        let issuedAt = Int64(Date().timeIntervalSince1970)
        guard let token = try await settings.configuration.authentication.providerToken(issuedAt: issuedAt) else {
            return
        }
        Standard.output.print(self.json ? JSONText.encode(try IssuedToken(token)) : token)
    }

    private func settings() throws -> ToolSettings {
        let settings = try ToolSettings(self.keyOptions)
        guard settings.hasKey else {
            throw UsageError("Missing --key (or APNS_KEY_FILE): the .p8 file that signs the token.")
        }
        return settings
    }
}

/// A provider token and its contents (RFC 7519).
private struct IssuedToken: Encodable {
    var token: String
    var keyID: String
    var teamID: String
    /// Seconds since 1970.
    var issuedAt: Int64

    private struct Header: Decodable { var kid: String }
    private struct Claims: Decodable {
        var iss: String
        var iat: Int64
    }

    init(_ token: String) throws {
        let parts = token.split(separator: ".")
        guard parts.count == 3 else { throw InputOutputError(description: "the token has another form than expected") }
        let header = try JSONDecoder().decode(Header.self, from: Self.bytes(parts[0]))
        let claims = try JSONDecoder().decode(Claims.self, from: Self.bytes(parts[1]))
        self.token = token
        self.keyID = header.kid
        self.teamID = claims.iss
        self.issuedAt = claims.iat
    }

    /// base64url (RFC 4648, section 5).
    private static func bytes(_ text: Substring) throws -> Data {
        var plain = text.replacing("-", with: "+").replacing("_", with: "/")
        while plain.count % 4 != 0 { plain += "=" }
        guard let data = Data(base64Encoded: String(plain)) else {
            throw InputOutputError(description: "the token has another form than expected")
        }
        return data
    }
}
