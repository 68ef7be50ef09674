import APNSModel
import Foundation
import TestSupport
import Testing

@testable import APNSSimulator

private let hasCurl = Command.path(of: "curl") != nil

/// Channels, with curl as the client.
struct ForeignChannelTests {
    private struct Response {
        var status = 0
        var fields: [String: String] = [:]
        var body = ""
    }

    private func curl(
        _ simulator: Simulator,
        _ jwt: String?,
        _ method: String,
        _ path: String,
        _ fields: [String] = [],
        body: String? = nil
    ) async throws -> Response {
        let folder = try TemporaryFolder()
        var arguments = [
            "--silent", "--show-error", "--http2", "--max-time", "\(Patience.seconds)", "--request", method,
            "--cacert", try folder.write("ca.pem", simulator.certificateAuthorityPEM), "--dump-header", "-",
        ]
        if let jwt { arguments += ["--header", "authorization: bearer \(jwt)"] }
        for field in fields { arguments += ["--header", field] }
        if let body { arguments += ["--data", body] }
        let result = try await Command.run("curl", arguments + ["https://localhost:\(simulator.port)\(path)"])
        #expect(result.status == 0, "\(result.output)")
        let text = result.output.replacing("\r\n", with: "\n")
        let parts = text.split(separator: "\n\n", maxSplits: 1, omittingEmptySubsequences: false)
        var response = Response(body: parts.count > 1 ? String(parts[1]) : "")
        for (number, line) in (parts.first ?? "").split(separator: "\n").enumerated() {
            if number == 0 { response.status = line.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0 }
            let field = line.split(separator: ": ", maxSplits: 1).map(String.init)
            if field.count == 2 { response.fields[field[0]] = field[1] }
        }
        return response
    }

    @Test(.enabled(if: hasCurl, "curl is not installed"))
    func curlManagesChannels() async throws {
        let key = SimulatedKey()
        var configuration = Simulator.Configuration()
        configuration.credential = .keys([.init(key)])
        let simulator = try await Simulator.start(configuration)
        let jwt = try key.providerToken(issuedAt: Sample.now)
        let path = "/1/apps/com.example.app/channels"
        let body = #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#

        let refused = try await self.curl(simulator, nil, "POST", path, body: body)
        #expect(refused.status == 403)
        #expect(refused.body == #"{"reason":"MissingProviderToken"}"#)

        let requestID = "eabeae54-14a8-11e5-b60b-1697f925ec7b"
        let made = try await self.curl(simulator, jwt, "POST", path, ["apns-request-id: \(requestID)"], body: body)
        #expect(made.status == 201)
        #expect(made.body.isEmpty)
        #expect(made.fields["apns-request-id"] == requestID)
        #expect(made.fields["apns-id"] == nil)
        let id = try #require(made.fields["apns-channel-id"])
        #expect(id.count == 24)
        #expect(Data(base64Encoded: id)?.count == 16)

        let read = try await self.curl(simulator, jwt, "GET", path, ["apns-channel-id: \(id)"])
        #expect(read.status == 200)
        #expect(read.body == body)
        let list = try await self.curl(simulator, jwt, "GET", "/1/apps/com.example.app/all-channels")
        #expect(list.body == #"{"channels":["\#(id)"]}"#)

        let broadcast = try await self.curl(
            simulator,
            jwt,
            "POST",
            "/4/broadcasts/apps/com.example.app",
            ["apns-channel-id: \(id)", "apns-push-type: liveactivity", "apns-priority: 5", "apns-expiration: 0"],
            body: #"{"aps":{"event":"end"}}"#
        )
        #expect(broadcast.status == 200)
        #expect(broadcast.body.isEmpty)
        #expect(broadcast.fields["apns-request-id"]?.count == 36)
        #expect(simulator.record.broadcasts.count == 1)

        #expect(try await self.curl(simulator, jwt, "DELETE", path, ["apns-channel-id: \(id)"]).status == 204)
        let again = try await self.curl(simulator, jwt, "DELETE", path, ["apns-channel-id: \(id)"])
        #expect(again.status == 404)
        #expect(again.body == #"{"reason":"BadPath"}"#)
        let ledger = simulator.record
        #expect(ledger.channelCallsReceived == 6)
        #expect(ledger.channelCallsProcessed == 4)
        #expect(ledger.requestsReceived == 7)
        #expect(ledger.responses[201] == 1)
        #expect(ledger.requestsRejected == 2)
        await simulator.stop()
    }
}
