import APNSPool
import APNSSimulator
import Foundation
import Synchronization
import TestSupport

@testable import APNSCommand

/// Runs the tool in this process or in a process of its own.
struct Tool {
    struct Result: Sendable {
        var status: Int32
        var output: String
        var error: String

        var lines: [String] { self.output.split(separator: "\n").map(String.init) }
        var lastErrorLine: String { self.error.split(separator: "\n").last.map(String.init) ?? "" }
    }

    /// The tool's executable, next to that of the tests.
    static var path: String {
        let own = CommandLine.arguments.first ?? ""
        let folders = [
            URL(fileURLWithPath: own).deletingLastPathComponent(),
            Bundle.main.bundleURL, Bundle.main.bundleURL.deletingLastPathComponent(),
        ]
        let candidates = folders.map { $0.appendingPathComponent("apns").path }
        return candidates.first { FileManager.default.isExecutableFile(atPath: $0) } ?? candidates[0]
    }

    /// Runs a command in this process, with streams of its own.
    static func run(
        _ arguments: [String],
        environment: [String: String] = [:],
        input: String? = nil
    ) async throws -> Result {
        let folder = try Folder()
        func open(_ name: String, _ text: String = "") throws -> Int32 {
            try SystemFile.open(try folder.write(text, to: name), O_RDWR | O_APPEND | O_CLOEXEC).get()
        }
        var process = ToolProcess()
        process.variables = self.variables(environment)
        process.input = try open("input", input ?? "")
        process.output = try open("output")
        process.error = try open("error")
        process.owner = OpenStreams(process.input, process.output, process.error)
        process.handlesSignals = false
        process.columns = 80
        let status = await ToolProcess.$current.withValue(process) { await APNSTool.status(of: arguments) }
        return Result(
            status: status,
            output: try String(contentsOfFile: folder.path("output"), encoding: .utf8),
            error: try String(contentsOfFile: folder.path("error"), encoding: .utf8)
        )
    }

    /// The help of a command. It is printed once for all tests, since a debug build of the parser is slow.
    static func help(of command: [String]) async throws -> Result { try await HelpPages.shared.page(of: command) }

    /// Runs the built tool as a process of its own.
    static func spawn(_ arguments: [String], environment: [String: String] = [:]) async throws -> Result {
        let running = try Running(arguments, environment: environment)
        running.closeInput()
        return await running.end()
    }

    /// The variables of this process without those of settings, plus `environment`.
    static func variables(_ environment: [String: String]) -> [String: String] {
        ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("APNS_") }.merging(environment) { $1 }
    }
}

private actor HelpPages {
    static let shared = HelpPages()
    private var pages: [[String]: Task<Tool.Result, any Error>] = [:]

    func page(of command: [String]) async throws -> Tool.Result {
        let page = self.pages[command] ?? Task { try await Tool.run(command + ["--help"]) }
        self.pages[command] = page
        return try await page.value
    }
}

/// The streams of a command, closed once neither the command nor one of its loggers uses them.
private final class OpenStreams: Sendable {
    private let descriptors: [Int32]

    init(_ descriptors: Int32...) {
        self.descriptors = descriptors
    }

    deinit {
        for descriptor in self.descriptors { SystemFile.close(descriptor) }
    }
}

/// A running process of the tool.
final class Running: Sendable {
    private let process: Process
    private let input = Pipe.make()
    private let folder: URL
    private let ended = Mutex<(isOver: Bool, waiters: [CheckedContinuation<Void, Never>])>((false, []))

    init(_ arguments: [String], environment: [String: String] = [:]) throws {
        self.folder = FileManager.default.temporaryDirectory.appendingPathComponent("apns-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: Tool.path)
        process.arguments = arguments
        process.environment = Tool.variables(environment)
        process.standardInput = self.input
        // Files, since a full pipe would block the tool.
        process.standardOutput = try Self.file(self.folder.appendingPathComponent("output"))
        process.standardError = try Self.file(self.folder.appendingPathComponent("error"))
        self.process = process
        process.terminationHandler = { [weak self] _ in
            let waiters = self?.ended.withLock { ended in
                ended.isOver = true
                defer { ended.waiters = [] }
                return ended.waiters
            }
            for waiter in waiters ?? [] { waiter.resume() }
        }
        try process.start()
    }

    deinit {
        if self.process.isRunning { self.process.terminate() }
        try? FileManager.default.removeItem(at: self.folder)
    }

    private static func file(_ url: URL) throws -> FileHandle {
        _ = FileManager.default.createFile(atPath: url.path, contents: nil)
        return try FileHandle(forWritingTo: url)
    }

    /// Whether the process has ended.
    var isOver: Bool { self.ended.withLock { $0.isOver } }
    var output: String { self.text("output") }
    var error: String { self.text("error") }

    private func text(_ name: String) -> String {
        let data = (try? Data(contentsOf: self.folder.appendingPathComponent(name))) ?? Data()
        return String(decoding: data, as: UTF8.self)
    }

    func write(_ text: String) { self.input.fileHandleForWriting.write(Data(text.utf8)) }
    func closeInput() { try? self.input.fileHandleForWriting.close() }
    func interrupt() { self.signal(SIGINT) }
    func signal(_ number: Int32) { kill(self.process.processIdentifier, number) }

    func end() async -> Tool.Result {
        await withCheckedContinuation { continuation in
            let isOver = self.ended.withLock { ended in
                if !ended.isOver { ended.waiters.append(continuation) }
                return ended.isOver
            }
            if isOver { continuation.resume() }
        }
        return Tool.Result(
            status: self.process.terminationStatus,
            output: self.output,
            error: self.error
        )
    }
}

/// A temporary folder, removed with its owner.
final class Folder: Sendable {
    let url: URL

    init() throws {
        self.url = FileManager.default.temporaryDirectory.appendingPathComponent("apns-tests-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: self.url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: self.url) }

    func path(_ name: String) -> String { self.url.appendingPathComponent(name).path }

    func write(_ text: String, to name: String) throws -> String {
        try text.write(toFile: self.path(name), atomically: true, encoding: .utf8)
        return self.path(name)
    }

    /// The lines of a file, without a last line that has no line end.
    func completeLines(of name: String) -> [String] {
        let text = (try? String(contentsOfFile: self.path(name), encoding: .utf8)) ?? ""
        let lines = self.lines(of: name)
        return text.hasSuffix("\n") ? lines : lines.dropLast()
    }

    func lines(of name: String) -> [String] {
        let text = (try? String(contentsOfFile: self.path(name), encoding: .utf8)) ?? ""
        return text.split(separator: "\n").map(String.init)
    }
}

/// A simulator in this process, and the options that make the tool send to it.
struct Server {
    let simulator: Simulator
    let folder: Folder
    let options: [String]

    static func with<Result>(
        _ change: (inout Simulator.Configuration) -> Void = { _ in },
        _ body: (Server) async throws -> Result
    ) async throws -> Result {
        var configuration = Simulator.Configuration()
        change(&configuration)
        let simulator = try await Simulator.start(configuration)
        do {
            let key = SimulatedKey()
            simulator.addKey(key)
            let folder = try Folder()
            let options = [
                "--endpoint", "https://localhost:\(simulator.port)",
                "--ca-file", try folder.write(simulator.certificateAuthorityPEM, to: "ca.pem"),
                "--key", try folder.write(key.p8, to: key.fileName),
                "--team-id", key.teamID, "--topic", "com.example.app",
            ]
            let result = try await body(Server(simulator: simulator, folder: folder, options: options))
            await simulator.stop()
            return result
        } catch {
            await simulator.stop()
            throw error
        }
    }
}

/// A device token of 64 digits.
func token(_ number: Int) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "0", count: 64 - digits.count) + digits
}
