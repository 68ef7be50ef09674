import APNSModel
import Foundation
import TestSupport
import Testing

@testable import APNSSimulator

private let hasCurl = Command.path(of: "curl") != nil
private let hasH2load = Command.path(of: "h2load") != nil

/// The simulator, with clients of other projects.
struct ForeignPeerTests {
    struct Response {
        var status: Int
        var fields: [String: String]
        var body: String
    }

    private func curl(
        _ simulator: Simulator,
        jwt: String?,
        token: String = Sample.deviceToken,
        fields: [String] = []
    ) async throws -> Response {
        let folder = try TemporaryFolder()
        var arguments = [
            "--silent", "--show-error", "--http2", "--max-time", "\(Patience.seconds)",
            "--cacert", try folder.write("ca.pem", simulator.certificateAuthorityPEM),
            "--dump-header", "-", "--header", "apns-topic: \(Sample.topic)", "--header", "apns-push-type: alert",
            "--data", Sample.payload,
        ]
        if let jwt { arguments += ["--header", "authorization: bearer \(jwt)"] }
        for field in fields { arguments += ["--header", field] }
        let url = "https://localhost:\(simulator.port)/3/device/\(token)"
        let result = try await Command.run("curl", arguments + [url])
        #expect(result.status == 0, "\(result.output)")
        let parts = result.output.replacing("\r\n", with: "\n").split(separator: "\n\n", maxSplits: 1)
        let lines = (parts.first ?? "").split(separator: "\n")
        var response = Response(status: 0, fields: [:], body: parts.count > 1 ? String(parts[1]) : "")
        #expect(lines.first?.hasPrefix("HTTP/2 ") == true, "\(result.output)")
        response.status = lines.first?.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        for line in lines.dropFirst() {
            let field = line.split(separator: ": ", maxSplits: 1).map(String.init)
            if field.count == 2 { response.fields[field[0]] = field[1] }
        }
        return response
    }

    @Test(.enabled(if: hasCurl, "curl is not installed"))
    func curlGetsResponsesLikeThoseOfAPNs() async throws {
        let key = SimulatedKey()
        var configuration = Simulator.Configuration()
        configuration.credential = .keys([.init(key)])
        let simulator = try await Simulator.start(configuration)
        let jwt = try key.providerToken(issuedAt: Sample.now)
        let dead = String(Sample.deviceToken.reversed())
        simulator.setToken(dead, .unregistered(sinceMilliseconds: 1_700_000_000_123))

        let id = "eabeae54-14a8-11e5-b60b-1697f925ec7b"
        let accepted = try await self.curl(simulator, jwt: jwt, fields: ["apns-id: \(id)"])
        #expect(accepted.status == 200)
        #expect(accepted.fields["apns-id"] == id)
        #expect(accepted.fields["apns-unique-id"]?.count == 36)
        #expect(accepted.body == "")

        let bad = try await self.curl(simulator, jwt: jwt, token: "xyz0")
        #expect(bad.status == 400)
        #expect(bad.body == #"{"reason":"BadDeviceToken"}"#)

        let stranger = try SimulatedKey(keyID: key.keyID, teamID: key.teamID).providerToken(issuedAt: Sample.now)
        let refused = try await self.curl(simulator, jwt: stranger)
        #expect(refused.status == 403)
        #expect(refused.body == #"{"reason":"InvalidProviderToken"}"#)
        let missing = try await self.curl(simulator, jwt: nil)
        #expect(missing.body == #"{"reason":"MissingProviderToken"}"#)

        let gone = try await self.curl(simulator, jwt: jwt, token: dead)
        #expect(gone.status == 410)
        #expect(gone.body == #"{"reason":"Unregistered","timestamp":1700000000123}"#)
        let made = try #require(gone.fields["apns-id"])
        #expect(made == made.uppercased() && APNSID(made) != nil)

        let ledger = simulator.record
        #expect(ledger.requestsProcessed == 1 && ledger.requestsRejected == 4 && ledger.connectionsOpened == 5)
        #expect(ledger.pushes.map(\.status) == [200, 400, 403, 403, 410])
        #expect(ledger.pushes.map(\.connection) == [1, 2, 3, 4, 5])
        let push = try #require(ledger.pushes.first)
        #expect(push.deviceToken == Sample.deviceToken && push.topic == Sample.topic && push.pushType == .alert)
        #expect(push.payload == Array(Sample.payload.utf8) && push.apnsID == APNSID(id) && push.isProcessed)
        await simulator.stop()
    }

    @Test(.enabled(if: hasH2load, "h2load (package nghttp2-client) is not installed"), arguments: [1, 100])
    func h2loadRequestsSucceed(streams: Int) async throws {
        let key = SimulatedKey()
        var configuration = Simulator.Configuration()
        configuration.credential = .keys([.init(key)])
        let simulator = try await Simulator.start(configuration)
        let folder = try TemporaryFolder()
        let result = try await Command.run(
            "h2load",
            [
                "-n", "2000", "-c", "10", "-m", "\(streams)", "-d", try folder.write("payload", Sample.payload),
                "-H", "authorization: bearer \(try key.providerToken(issuedAt: Sample.now))",
                "-H", "apns-topic: \(Sample.topic)", "-H", "apns-push-type: alert",
                "https://localhost:\(simulator.port)/3/device/\(Sample.deviceToken)",
            ]
        )
        #expect(result.output.contains("2000 total, 2000 started, 2000 done, 2000 succeeded"), "\(result.output)")
        #expect(result.output.contains("status codes: 2000 2xx, 0 3xx, 0 4xx, 0 5xx"), "\(result.output)")
        let ledger = simulator.record
        #expect(ledger.connectionsOpened == 10 && ledger.requestsProcessed == 2000)
        await simulator.stop()
    }
}
