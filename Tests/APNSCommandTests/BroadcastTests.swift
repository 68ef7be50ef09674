import APNSSimulator
import Foundation
import Testing

/// `apns broadcast` from its command line.
struct BroadcastTests {
    @Test func aBroadcastReachesItsChannel() async throws {
        try await Server.with { server in
            let made = try await Tool.run(["channels", "create"] + server.options)
            let channel = try #require(made.lines.first)
            let now = Int(Date().timeIntervalSince1970)
            let payload = #"{"aps":{"timestamp":\#(now),"event":"update","content-state":{"home":2}}}"#
            let arguments = ["broadcast", "--channel", channel, "--payload", "-"] + server.options
            let sent = try await Tool.run(arguments, input: payload)
            #expect(sent.status == 0, "\(sent.error)")
            #expect(sent.output.hasPrefix("\(channel) accepted 200"))
            #expect(server.simulator.record.broadcasts.count == 1)
            let json = try await Tool.run(arguments + ["--json", "--priority", "5"], input: payload)
            #expect(json.status == 0, "\(json.error)")
            let object = try #require(
                try JSONSerialization.jsonObject(with: Data(json.output.utf8)) as? [String: Any]
            )
            #expect(object["outcome"] as? String == "accepted" && object["channel"] as? String == channel)
            #expect(server.simulator.record.broadcasts.count == 2)
        }
    }

    @Test func anInvalidBroadcastIsNotSent() async throws {
        try await Server.with { server in
            let arguments = ["broadcast", "--payload", "-"] + server.options
            let channel = ["--channel", "dHN0LXNyY2gtY2hubA=="]
            let payload = try await Tool.run(arguments + channel, input: "[1]")
            #expect(payload.status == 64)
            #expect(payload.error.contains("holds no JSON object"), "\(payload.error)")
            #expect(try await Tool.run(arguments + ["--channel", "?"], input: "{}").status == 64)
            #expect(try await Tool.run(arguments + channel + ["--expiration", "x"], input: "{}").status == 64)
            #expect(server.simulator.record.broadcasts.isEmpty)
            let now = Int(Date().timeIntervalSince1970)
            let good = #"{"aps":{"timestamp":\#(now),"event":"update","content-state":{}}}"#
            let nowhere = try await Tool.run(arguments + channel + ["--json"], input: good)
            #expect(nowhere.status == 1, "\(nowhere.output)")
            let object = try #require(
                try JSONSerialization.jsonObject(with: Data(nowhere.output.utf8)) as? [String: Any]
            )
            #expect(object["outcome"] as? String == "rejected")
        }
    }
}
