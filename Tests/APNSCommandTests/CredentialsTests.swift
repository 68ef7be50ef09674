import APNSPool
import APNSSimulator
import Foundation
import APNSTransport
import TestSupport
import Testing

@testable import APNSCommand

/// The environment that `apns simulator --write-credentials` writes.
struct CredentialsTests {
    /// The variables of a shell that has read the file.
    private func load(_ file: String) throws -> [String: String] {
        let shell = Process()
        shell.executableURL = URL(fileURLWithPath: "/bin/sh")
        shell.arguments = ["-c", "set -a; . \"$1\"; env -0", "sh", file]
        shell.environment = ["PATH": ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"]
        let output = Pipe.make()
        shell.standardOutput = output
        try shell.start()
        let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        shell.waitUntilExit()
        let pairs = text.split(separator: "\0").map { $0.split(separator: "=", maxSplits: 1).map(String.init) }
        return Dictionary(uniqueKeysWithValues: pairs.filter { $0.count == 2 }.map { ($0[0], $0[1]) })
    }

    /// A simulator that requires provider tokens of the key, or none.
    private func start(_ key: SimulatedKey?, authority: TLSIdentity? = nil) async throws -> Simulator {
        var configuration = Simulator.Configuration()
        configuration.credential = key.map { .keys([Simulator.Key($0)]) } ?? .none
        configuration.certificateAuthority = authority
        return try await Simulator.start(configuration)
    }

    @Test(
        "The environment that the simulator writes configures both the tool and the library",
        arguments: [true, false]
    )
    func writtenEnvironment(needsToken: Bool) async throws {
        let key = needsToken ? SimulatedKey() : nil
        let simulator = try await self.start(key)
        let folder = try Folder()
        let place = folder.url.appendingPathComponent("it's a place")
        try Credentials(simulator, key: key, folder: place).write()
        let variables = try self.load(place.appendingPathComponent("apns.env").path)
        #expect((variables["APNS_KEY_FILE"] != nil) == needsToken)
        #expect((variables["APNS_TOKEN_FILE"] != nil) == needsToken)

        let sent = try await Tool.run(["send", "--title", "Hey", token(1)], environment: variables)
        #expect(sent.status == 0, "\(sent.output)\(sent.error)")
        #expect(simulator.record.requestsProcessed == 1)

        let configuration = try APNSClientConfiguration(settings: [.environment(variables)])
        #expect(configuration.environment == .custom(host: "localhost", port: simulator.port))
        let topic = try #require(variables["APNS_TOPIC"])
        let outcome = try await withAPNSClient(configuration: configuration) { client in
            await client.deliver(PushNotification(topic: topic, alert: "Hey"), to: token(2))
        }
        #expect(outcome.certainty == .accepted, "\(outcome)")
        #expect(simulator.record.requestsProcessed == 2)
        await simulator.stop()
    }

    @Test(
        "A simulator that starts with the folder of an earlier run accepts that run's clients",
        arguments: [true, false]
    )
    func savedCredentials(needsToken: Bool) async throws {
        let folder = try Folder()
        let now = Int64(Date().timeIntervalSince1970)
        #expect(SavedCredentials(folder: folder.url, needsToken: needsToken, now: now) == nil)
        let key = needsToken ? SimulatedKey() : nil
        let first = try await self.start(key)
        try Credentials(first, key: key, folder: folder.url).write()
        let variables = try self.load(folder.path("apns.env"))
        await first.stop()

        let saved = try #require(SavedCredentials(folder: folder.url, needsToken: needsToken, now: now))
        let second = try await self.start(saved.key, authority: saved.authority)
        let endpoint = "https://localhost:\(second.port)"
        let arguments = ["send", "--title", "Hey", "--endpoint", endpoint, token(1)]
        var before = variables
        before["APNS_ENDPOINT"] = nil
        let sent = try await Tool.run(arguments, environment: before)
        #expect(sent.status == 0, "\(sent.output)\(sent.error)")
        // The second run writes the same files again.
        let certificate = folder.lines(of: "ca.pem")
        try Credentials(second, key: saved.key, folder: folder.url).write()
        #expect(folder.lines(of: "ca.pem") == certificate)
        await second.stop()
        #expect(try self.load(folder.path("apns.env"))["APNS_KEY_ID"] == variables["APNS_KEY_ID"])
    }

    @Test("Credentials that are incomplete, damaged, from two runs or about to expire are not reused")
    func unusableCredentials() async throws {
        let folder = try Folder()
        let now = Int64(Date().timeIntervalSince1970)
        let key = SimulatedKey()
        let simulator = try await self.start(key)
        let other = try await self.start(nil)
        let credentials = Credentials(simulator, key: key, folder: folder.url)
        func isUsable(_ time: Int64 = now) -> Bool {
            SavedCredentials(folder: folder.url, needsToken: true, now: time) != nil
        }
        try credentials.write()
        #expect(isUsable())
        #expect(!isUsable(now + 10 * 365 * 86_400))
        #expect(!isUsable(now - 10 * 86_400))
        let names = ["ca.pem", "simulator-ca-key.pem", "apns.env", "AuthKey_\(key.keyID).p8"]
        for name in names {
            try FileManager.default.removeItem(atPath: folder.path(name))
            #expect(!isUsable(), "\(name)")
            _ = try folder.write("-----BEGIN PRIVATE KEY-----\nAAAA\n", to: name)
            #expect(!isUsable(), "\(name)")
            // Without apns.env, nothing shows that the other files are a simulator's.
            if name == "apns.env" {
                for name in names { try FileManager.default.removeItem(atPath: folder.path(name)) }
            }
            try credentials.write()
            #expect(isUsable())
        }
        _ = try folder.write(other.certificateAuthorityKeyPEM, to: "simulator-ca-key.pem")
        #expect(!isUsable())
        await simulator.stop()
        await other.stop()
    }
}
