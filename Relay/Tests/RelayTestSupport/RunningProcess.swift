import Foundation
import PushQueueConformance
import Synchronization

/// A child process whose standard error is read.
final class RunningProcess: Sendable {
    private struct State {
        var output = ""
        var port: Int?
        var hasEnded = false
        var exitStatus: Int32?
    }

    private let state = Mutex(State())
    private let pid = Mutex<Int32>(0)

    static func start(_ name: String, _ environment: [String: String]) throws -> RunningProcess {
        let running = RunningProcess()
        let process = Process()
        process.executableURL = RelayUnderTest.products.appendingPathComponent(name)
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        let pipe = Pipe.make()
        process.standardError = pipe
        process.standardOutput = FileHandle.nullDevice
        process.terminationHandler = { running.end($0.terminationReason == .exit ? $0.terminationStatus : nil) }
        try process.start()
        running.pid.withLock { $0 = process.processIdentifier }
        let output = pipe.fileHandleForReading
        // Not a `readabilityHandler`: Dispatch on Linux can crash if the handle ends while its source is being cancelled.
        Thread.detachNewThread {
            while case let data = output.availableData, !data.isEmpty { running.read(data) }
        }
        return running
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

    /// - Returns: false if the process ended before it wrote the text.
    func waitForOutput(_ text: String) async -> Bool {
        await self.wait { $0.output.contains(text) || $0.hasEnded }
        return self.output.contains(text)
    }

    /// - Returns: false if the process ended before it listened.
    func waitForPort() async -> Bool {
        await self.wait { $0.port != nil || $0.hasEnded }
        return self.port != nil
    }

    /// Returns also if the condition does not hold in time. The test then finds another state than it expects.
    private func wait(_ condition: (State) -> Bool) async {
        try? await Patience.wait(for: "the process changes") { self.state.withLock { condition($0) } }
    }

    private func read(_ data: Data) {
        self.state.withLock { state in
            state.output += String(decoding: data, as: UTF8.self)
            if state.port == nil, let match = state.output.firstMatch(of: /url=https?:\/\/[^ ]*:(\d+) .*is listening/) {
                state.port = Int(match.1)
            }
        }
    }

    private func end(_ status: Int32?) {
        self.state.withLock { state in
            state.exitStatus = status
            state.hasEnded = true
        }
    }
}
