import APNSPool
import Foundation
import Testing

@testable import APNSCommand

/// The environment that `apns simulator --write-credentials` writes.
struct CredentialsTests {
    /// What a shell has in its environment after it has read the file.
    private func load(_ file: String) throws -> [String: String] {
        let shell = Process()
        shell.executableURL = URL(fileURLWithPath: "/bin/sh")
        shell.arguments = ["-c", "set -a; . \"$1\"; env -0", "sh", file]
        shell.environment = ["PATH": ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"]
        let output = Pipe()
        shell.standardOutput = output
        try shell.run()
        let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        shell.waitUntilExit()
        let pairs = text.split(separator: "\0").map { $0.split(separator: "=", maxSplits: 1).map(String.init) }
        return Dictionary(uniqueKeysWithValues: pairs.filter { $0.count == 2 }.map { ($0[0], $0[1]) })
    }

    @Test(
        "The environment that the simulator writes configures the tool and the library alike",
        arguments: [true, false]
    )
    func oneEnvironmentServesBoth(needsToken: Bool) async throws {
        let simulator = try await LocalSimulator.start(wantsToken: needsToken, recordsPushes: true)
        let folder = try Folder()
        let place = folder.url.appendingPathComponent("it's a place")
        try Credentials(simulator, folder: place, needsToken: needsToken).write()
        let variables = try self.load(place.appendingPathComponent("apns.env").path)
        #expect((variables["APNS_KEY_FILE"] != nil) == needsToken)

        let sent = try await Tool.run(["send", "--title", "Hey", token(1)], environment: variables)
        #expect(sent.status == 0, "\(sent.output)\(sent.error)")
        #expect(simulator.counts.accepted == 1)

        let configuration = try APNSClientConfiguration(settings: [.environment(variables)])
        #expect(configuration.environment == .custom(host: "localhost", port: simulator.port))
        let topic = try #require(variables["APNS_TOPIC"])
        let outcome = try await withAPNSClient(configuration: configuration) { client in
            await client.deliver(PushNotification(topic: topic, alert: "Hey"), to: token(2))
        }
        #expect(outcome.certainty == .accepted, "\(outcome)")
        #expect(simulator.counts.accepted == 2)
        await simulator.stop()
    }
}
