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
        discussion: """
            APNs takes it for an hour. Do not make a new one for each call: APNs answers too many of them with 429 \
            TooManyProviderTokenUpdates. With --token-file a new one is made only when the one in the file is used up.

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
        let issuedAt = Int64(Date().timeIntervalSince1970)
        if let token = try await key.authentication.providerToken(issuedAt: issuedAt) {
            Standard.output.print(token)
        }
    }

    private func key() throws -> KeyOptions.Key {
        guard let key = try self.keyOptions.resolved(.process) else {
            throw UsageError("--key (or APNS_KEY_FILE) is missing: the .p8 file that signs the token.")
        }
        return key
    }
}
