import Foundation
import TestSupport

@testable import APNSPool
@testable import APNSPoolTestSupport

/// `apns simulator` in the server's namespace. It serves all networks of the lab.
final class LabServer: Sendable {
    /// The names under which clients reach it.
    static let domain = "lab.test"

    private struct Row: Decodable {
        var apnsID: APNSID?
        var deviceToken: String
        var isProcessed: Bool
    }

    private let process: Process
    private let folder: URL
    /// The settings for its clients, as environment variables.
    let variables: [String: String]

    private init(process: Process, folder: URL, variables: [String: String]) {
        self.process = process
        self.folder = folder
        self.variables = variables
    }

    static func start() async throws -> LabServer {
        let tests = URL(fileURLWithPath: CommandLine.arguments[0])
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("network-lab-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let output = folder.appendingPathComponent("output")
        _ = FileManager.default.createFile(atPath: output.path, contents: nil)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [
            "ip", "netns", "exec", "server", tests.deletingLastPathComponent().appendingPathComponent("apns").path,
            "simulator", "--listen", "::", "--port", "\(Lab.port)", "--name", "*.\(self.domain)",
            "--write-credentials", folder.path, "--ledger", folder.appendingPathComponent("ledger").path,
        ]
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.standardInput = FileHandle.nullDevice
        try process.start()
        guard
            await eventually({
                !process.isRunning
                    || (try? String(contentsOf: output, encoding: .utf8).contains("Press Ctrl-C")) == true
            }), process.isRunning
        else { throw Lab.Failure(description: "the simulator did not start") }
        let lines = try String(contentsOf: folder.appendingPathComponent("apns.env"), encoding: .utf8)
            .split(separator: "\n").map { $0.split(separator: "=", maxSplits: 1).map(String.init) }
        let variables = Dictionary(uniqueKeysWithValues: lines.map { ($0[0], $0[1]) })
        return LabServer(process: process, folder: folder, variables: variables)
    }

    /// Stops the server.
    ///
    /// - Returns: how often each push was processed, by device token.
    func stop() throws -> [String: [APNSID: Int]] {
        self.process.interrupt()
        self.process.waitUntilExit()
        defer { try? FileManager.default.removeItem(at: self.folder) }
        let text = try String(contentsOf: self.folder.appendingPathComponent("ledger"), encoding: .utf8)
        var processed: [String: [APNSID: Int]] = [:]
        for line in text.split(separator: "\n") {
            let row = try JSONDecoder().decode(Row.self, from: Data(line.utf8))
            guard row.isProcessed, let id = row.apnsID else { continue }
            processed[row.deviceToken, default: [:]][id, default: 0] += 1
        }
        return processed
    }
}
