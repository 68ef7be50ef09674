import APNSModel
import APNSSimulator
import Foundation
import TestSupport
import Testing

@testable import APNSCommand

/// `apns channels` from its command line.
struct ChannelsTests {
    private func run(_ server: Server, _ arguments: String...) async throws -> Tool.Result {
        try await Tool.run(["channels"] + arguments + server.options)
    }

    private func object(_ text: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    }

    @Test func channelsAreCreatedListedShownAndDeleted() async throws {
        try await Server.with { server in
            let made = try await self.run(server, "create", "--storage", "most-recent-message")
            #expect(made.status == 0, "\(made.error)")
            let id = try #require(made.lines.first)
            #expect(server.simulator.channels(of: "com.example.app") == [id])
            let other = try await self.run(server, "create", "--json")
            let otherID = try #require(try self.object(other.output)["id"] as? String)
            let list = try await self.run(server, "list")
            #expect(list.lines == [id, otherID])
            let json = try self.object(try await self.run(server, "list", "--json").output)
            #expect(json["ids"] as? [String] == [id, otherID])
            #expect(try await self.run(server, "show", id).output == "\(id) LiveActivity, stores most-recent-message\n")
            let shown = try self.object(try await self.run(server, "show", "--json", otherID).output)
            #expect(shown["id"] as? String == otherID)
            #expect(shown["storage"] as? Int == 0)
            let deleted = try await self.run(server, "delete", id)
            #expect(deleted.status == 0)
            #expect(deleted.output == "\(id) deleted\n")
            let again = try await self.run(server, "delete", "--json", id)
            #expect(again.status == 0)
            #expect(try self.object(again.output)["existed"] as? Bool == false)
            #expect(server.simulator.channels(of: "com.example.app") == [otherID])
        }
    }

    @Test func anEmptyListPrintsNothing() async throws {
        try await Server.with { server in
            let result = try await self.run(server, "list")
            #expect(result.status == 0)
            #expect(result.output.isEmpty)
        }
    }

    @Test func aRejectionExitsWith1() async throws {
        try await Server.with { server in
            let result = try await self.run(server, "show", "--json", "AAAA")
            #expect(result.status == 1)
            let object = try self.object(result.output)
            #expect(object["outcome"] as? String == "rejected")
            #expect(object["status"] as? Int == 400)
            #expect(object["reason"] as? String == "BadChannelId")
            #expect(object["requestID"] is String)
            #expect(result.error.contains("BadChannelId"))
        }
    }

    @Test func aLostResponseToCreateExitsWith75() async throws {
        try await Server.with { server in
            server.simulator.inject(Fault(.dropConnection(isProcessed: true), when: .next))
            let result = try await self.run(server, "create", "--json")
            #expect(result.status == 75, "\(result.error)")
            #expect(try self.object(result.output)["outcome"] as? String == "unknown")
            #expect(server.simulator.channels(of: "com.example.app").count == 1)
        }
    }

    @Test func wrongOptionsExitWith64() async throws {
        try await Server.with { server in
            let id = try await self.run(server, "show", "no base64")
            #expect(id.status == 64)
            #expect(id.error.contains("base64"))
            let storage = try await self.run(server, "create", "--storage", "all")
            #expect(storage.status == 64)
            #expect(storage.error.contains("--storage"))
            let topic = try await Tool.run(["channels", "list"] + server.options + ["--topic", "a/b"])
            #expect(topic.status == 64, "\(topic.error)")
            #expect(server.simulator.record.requestsReceived == 0)
        }
        let none = try await Tool.run(["channels", "list"])
        #expect(none.status == 64)
    }

    @Test func anUntrustedCertificateExitsWith78() async throws {
        try await Server.with { server in
            let index = try #require(server.options.firstIndex(of: "--ca-file"))
            var options = server.options
            options.removeSubrange(index...(index + 1))
            let result = try await Tool.run(["channels", "list", "--json"] + options)
            #expect(result.status == 78, "\(result.error)")
            #expect(try self.object(result.output)["outcome"] as? String == "not-sent")
        }
    }

    /// `apns simulator` serves pushes and channels on one port.
    @Test func theSimulatorCommandServesChannels() async throws {
        let folder = try Folder()
        let simulator = try Running(["simulator", "--port", "0", "--write-credentials", folder.path("sim")])
        #expect(await eventually { simulator.output.contains("Ctrl-C") })
        var variables: [String: String] = [:]
        for line in folder.lines(of: "sim/apns.env") {
            let parts = line.split(separator: "=", maxSplits: 1).map(String.init)
            if parts.count == 2 { variables[parts[0]] = parts[1] }
        }
        let made = try await Tool.run(["channels", "create"], environment: variables)
        #expect(made.status == 0, "\(made.error)")
        let listed = try await Tool.run(["channels", "list"], environment: variables)
        #expect(listed.output == made.output)
        simulator.interrupt()
        let result = await simulator.end()
        #expect(result.status == 0)
        #expect(
            result.lines.last
                == "0 pushes received, 0 of them accepted, 2 connections, 1 provider tokens, 2 channel calls"
        )
    }
}
