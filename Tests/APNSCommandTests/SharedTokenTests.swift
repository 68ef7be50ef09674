import APNSSimulator
import Foundation
import TestSupport
import Testing

/// Several processes share one provider token through a file.
struct SharedTokenTests {
    private let folder: Folder
    private let key = SimulatedKey()

    init() throws {
        self.folder = try Folder()
        _ = try self.folder.write(self.key.p8, to: self.key.fileName)
    }

    private func path(_ name: String) -> String { self.folder.path(name) }

    private func arguments(_ command: String, sharing: Bool = true) -> [String] {
        [command, "--key", self.path(self.key.fileName), "--team-id", self.key.teamID]
            + (sharing ? ["--token-file", self.path("token")] : [])
    }

    private func token() async throws -> String {
        let result = try await Tool.spawn(self.arguments("provider-token"))
        #expect(result.status == 0, "\(result.error)")
        return result.output
    }

    private func send(to simulator: Simulator, sharing: Bool) async throws -> [Tool.Result] {
        let ca = try self.folder.write(simulator.certificateAuthorityPEM, to: "ca.pem")
        let arguments =
            self.arguments("send", sharing: sharing) + [
                "--endpoint", "https://localhost:\(simulator.port)", "--ca-file", ca, "--topic", "com.example.app",
                "--title", "Hello", String(repeating: "ab", count: 32),
            ]
        return try await withThrowingTaskGroup(of: Tool.Result.self) { group in
            for _ in 0..<4 { group.addTask { try await Tool.spawn(arguments) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    /// A simulator that refuses a second token of one key, as APNs does.
    private func simulator() async throws -> Simulator {
        var configuration = Simulator.Configuration()
        configuration.credential = .keys([.init(self.key)])
        configuration.limitsProviderTokenUpdates = true
        return try await Simulator.start(configuration)
    }

    @Test func fourProcessesShareOneTokenAcrossRestarts() async throws {
        let simulator = try await self.simulator()
        for _ in 0..<3 {
            for result in try await self.send(to: simulator, sharing: true) {
                #expect(result.status == 0, "\(result.output) \(result.error)")
            }
        }
        #expect(simulator.record.requestsProcessed == 12)
        let text = try String(contentsOfFile: self.path("token"), encoding: .utf8)
        #expect(try await self.token() == text.prefix { $0 != "\n" } + "\n")
        let mode = try FileManager.default.attributesOfItem(atPath: self.path("token"))[.posixPermissions] as? Int
        #expect(mode == 0o600)
        await simulator.stop()
    }

    /// Shows that the test above can fail: processes with tokens of their own are refused.
    @Test func processesWithoutTheFileAreRefused() async throws {
        let simulator = try await self.simulator()
        let results = try await self.send(to: simulator, sharing: false)
        #expect(results.count { $0.status != 0 } == 3)
        #expect(results.contains { $0.output.contains("TooManyProviderTokenUpdates") })
        await simulator.stop()
    }

    /// The variables that `apns simulator` wrote.
    private func environment(_ folder: Folder) -> [String: String] {
        folder.lines(of: "sim/apns.env").reduce(into: [:]) { variables, line in
            let parts = line.split(separator: "=", maxSplits: 1).map(String.init)
            variables[parts[0]] = parts.last
        }
    }

    @Test(
        "The tool's simulator limits the tokens of a key unless it is told otherwise; its environment shares one",
        arguments: [false, true]
    )
    func simulatorLimitsTokens(allowsMore: Bool) async throws {
        let folder = try Folder()
        let options = allowsMore ? ["--without-token-limit"] : []
        let running = try Running(["simulator", "--port", "0", "--write-credentials", folder.path("sim")] + options)
        #expect(await eventually { running.output.contains("Ctrl-C") })
        var variables = self.environment(folder)
        let arguments = ["send", "--title", "Hello", String(repeating: "ab", count: 32)]
        for _ in 0..<3 {
            let result = try await Tool.run(arguments, environment: variables)
            #expect(result.status == 0, "\(result.output)\(result.error)")
        }
        variables["APNS_TOKEN_FILE"] = nil
        let second = try await Tool.run(arguments, environment: variables)
        #expect((second.status == 0) == allowsMore, "\(second.output)\(second.error)")
        #expect(second.output.contains("TooManyProviderTokenUpdates") == !allowsMore, "\(second.output)")
        running.interrupt()
        _ = await running.end()
    }

    @Test func theLockOfADeadProcessIsReleased() async throws {
        let first = try await self.token()
        // Without the file, the next process must take the lock.
        try FileManager.default.removeItem(atPath: self.path("token"))
        let holder = Process()
        holder.executableURL = URL(fileURLWithPath: "/bin/sh")
        holder.arguments = [
            "-c", "exec 9>\"$1.lock\" && flock 9 && : >\"$1.held\" && exec sleep 1000", "sh", self.path("token"),
        ]
        try holder.start()
        #expect(
            await eventually { FileManager.default.fileExists(atPath: self.path("token.held")) || !holder.isRunning }
        )
        #expect(holder.isRunning)
        async let waiting = self.token()
        // The process waits for the lock or has not reached it yet. In both cases the holder's death lets it continue.
        try await ContinuousClock().sleep(for: .milliseconds(200))
        #expect(!FileManager.default.fileExists(atPath: self.path("token")))
        kill(holder.processIdentifier, SIGKILL)
        let second = try await waiting
        #expect(second != first)
        #expect(try await self.token() == second)
    }

    @Test func aDamagedOrReadableTokenFileIsReplaced() async throws {
        let file = self.path("token")
        let first = try await self.token()
        let good = try String(contentsOfFile: file, encoding: .utf8)
        for damaged in ["", String(good.dropLast(10)), good + String(repeating: "x", count: 100_000), "eyJ"] {
            try damaged.write(toFile: file, atomically: false, encoding: .utf8)
            let fresh = try await self.token()
            #expect(fresh != first && fresh.split(separator: ".").count == 3)
            #expect(try await self.token() == fresh)
        }
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: file)
        let before = try String(contentsOfFile: file, encoding: .utf8)
        let fresh = try await self.token()
        #expect(!before.hasPrefix(fresh.dropLast()))
        #expect(try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int == 0o600)
    }
}
