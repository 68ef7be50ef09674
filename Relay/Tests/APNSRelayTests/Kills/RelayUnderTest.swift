import AsyncHTTPClient
import Foundation
import NIOCore
import NIOFoundationCompat
import NIOHTTP1
import Synchronization
import Testing

/// A relay in a process of its own, which a test can kill and start again with the same file.
final class RelayUnderTest: Sendable {
    let folder: URL
    private let environment: [String: String]
    private let current = Mutex<RunningProcess?>(nil)
    private let client = HTTPClient(eventLoopGroupProvider: .singleton)

    /// - Parameters:
    ///   - port: the port of the simulated APNs.
    ///   - certificateAuthority: the simulator's certificate authority in PEM form.
    ///   - settings: more environment variables, without the prefix `APNS_RELAY_`.
    init(port: Int, certificateAuthority: String, settings: [String: String] = [:]) throws {
        self.folder = FileManager.default.temporaryDirectory.appendingPathComponent("relay-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        let authority = self.folder.appendingPathComponent("ca.pem")
        try Data(certificateAuthority.utf8).write(to: authority)
        let values = [
            "APPS": "fern", "APP_FERN_TOPIC": "com.grasscove.Fern", "APP_FERN_ENVIRONMENTS": "production",
            "SERVER_PRODUCTION": "localhost:\(port)", "CLIENT_CA_FILE": authority.path, "HTTP_PORT": "0",
            "STORAGE_FILE": self.folder.appendingPathComponent("queue.sqlite").path,
        ].merging(settings) { $1 }
        self.environment = Dictionary(uniqueKeysWithValues: values.map { ("APNS_RELAY_\($0)", $1) })
    }

    /// Starts the process and waits until it listens.
    ///
    /// - Parameter killPoint: where it kills itself, as `KillPoint` reads it; nil for never.
    func start(killPoint: String? = nil) async throws {
        var environment = self.environment
        if let killPoint { environment["KILL_AT"] = killPoint }
        let process = try RunningProcess.start("KillableRelay", environment)
        self.current.withLock { $0 = process }
        let isListening = await process.waitForPort()
        try #require(isListening, "the relay did not start: \(process.output)")
    }

    /// The log of the current process.
    var output: String { self.current.withLock { $0?.output ?? "" } }

    /// Whether the process has ended.
    var hasEnded: Bool { self.current.withLock { $0?.hasEnded ?? true } }

    /// The exit status of the process; nil while it runs, and after a signal.
    var exitStatus: Int32? { self.current.withLock { $0?.exitStatus } }

    func kill() async {
        let process = self.current.withLock { $0 }
        process?.signal(SIGKILL)
        await process?.waitForEnd()
    }

    func terminate() async {
        let process = self.current.withLock { $0 }
        process?.signal(SIGTERM)
        await process?.waitForEnd()
    }

    func waitForEnd() async { await self.current.withLock { $0 }?.waitForEnd() }

    /// Ends the process and removes the folder.
    func clear() async throws {
        await self.kill()
        try await self.client.shutdown()
        try FileManager.default.removeItem(at: self.folder)
    }

    // MARK: Requests

    struct Response {
        var status: Int
        var body: Data
    }

    /// - Throws: an error if the relay cannot be reached or ends before it has responded.
    func request(_ method: String, _ path: String, body: String? = nil, type: String? = nil) async throws -> Response {
        let port = try #require(self.current.withLock { $0?.port })
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)\(path)")
        request.method = .RAW(value: method)
        if let body { request.body = .bytes(ByteBuffer(string: body)) }
        if let type { request.headers.add(name: "content-type", value: type) }
        let response = try await self.client.execute(request, timeout: .seconds(30))
        let buffer = try await response.body.collect(upTo: 64 << 20)
        return Response(status: Int(response.status.code), body: Data(buffer: buffer))
    }

    func json<Value: Decodable>(_ type: Value.Type, _ path: String) async throws -> Value {
        let response = try await self.request("GET", path)
        try #require(response.status == 200, "\(path): \(String(decoding: response.body, as: UTF8.self))")
        return try JSONDecoder().decode(type, from: response.body)
    }
}

/// A child process whose standard error is read.
final class RunningProcess: Sendable {
    private struct State {
        var output = ""
        var port: Int?
        var hasEnded = false
        var exitStatus: Int32?
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())
    private let pid = Mutex<Int32>(0)

    static func start(_ name: String, _ environment: [String: String]) throws -> RunningProcess {
        let running = RunningProcess()
        let process = Process()
        process.executableURL = Self.folder.appendingPathComponent(name)
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        let pipe = Pipe()
        process.standardError = pipe
        process.standardOutput = FileHandle.nullDevice
        pipe.fileHandleForReading.readabilityHandler = { handle in
            let data = handle.availableData
            if data.isEmpty { handle.readabilityHandler = nil } else { running.read(data) }
        }
        process.terminationHandler = { running.end($0.terminationReason == .exit ? $0.terminationStatus : nil) }
        try process.run()
        running.pid.withLock { $0 = process.processIdentifier }
        return running
    }

    /// The folder of the built products.
    private static var folder: URL {
        URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
    }

    var output: String { self.state.withLock { $0.output } }
    var port: Int? { self.state.withLock { $0.port } }
    var hasEnded: Bool { self.state.withLock { $0.hasEnded } }
    var exitStatus: Int32? { self.state.withLock { $0.exitStatus } }

    func signal(_ signal: Int32) {
        let pid = self.pid.withLock { $0 }
        if pid > 0, !self.hasEnded { Foundation.kill(pid, signal) }
    }

    func waitForEnd() async {
        await self.wait { $0.hasEnded }
    }

    /// - Returns: false if the process ended before it listened.
    func waitForPort() async -> Bool {
        await self.wait { $0.port != nil || $0.hasEnded }
        return self.port != nil
    }

    private func wait(_ condition: @Sendable (State) -> Bool) async {
        while true {
            let isDone = self.state.withLock { condition($0) }
            if isDone { return }
            await withCheckedContinuation { continuation in
                let isDone = self.state.withLock { state in
                    guard !condition(state) else { return true }
                    state.waiting.append(continuation)
                    return false
                }
                if isDone { continuation.resume() }
            }
        }
    }

    private func read(_ data: Data) {
        self.change { state in
            state.output += String(decoding: data, as: UTF8.self)
            if state.port == nil, let match = state.output.firstMatch(of: /url=https?:\/\/[^ ]*:(\d+) .*is listening/) {
                state.port = Int(match.1)
            }
        }
    }

    private func end(_ status: Int32?) {
        self.change { state in
            state.exitStatus = status
            state.hasEnded = true
        }
    }

    private func change(_ body: (inout State) -> Void) {
        let waiting = self.state.withLock { state in
            body(&state)
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }
}
