import Foundation
import Synchronization

/// A run of `curl`, which ends after `Patience.limit` at the latest.
public final class Curl: Sendable {
    private let process = Process()
    private let folder: URL
    private let ended = Mutex<(isOver: Bool, waiter: CheckedContinuation<Void, Never>?)>((false, nil))

    /// Starts curl with these arguments and this standard input.
    public init(_ arguments: [String], input: [UInt8] = []) throws {
        self.folder = FileManager.default.temporaryDirectory.appendingPathComponent("curl-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        let files = (input: self.folder.appendingPathComponent("input"), output: Self.output(in: self.folder))
        try Data(input).write(to: files.input)
        try Data().write(to: files.output)
        self.process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        self.process.arguments = ["curl", "-s", "--max-time", "\(Patience.seconds)"] + arguments
        self.process.standardInput = try FileHandle(forReadingFrom: files.input)
        self.process.standardOutput = try FileHandle(forWritingTo: files.output)
        self.process.terminationHandler = { [weak self] _ in
            self?.ended.withLock { ended in
                ended.isOver = true
                return ended.waiter.take()
            }?.resume()
        }
        try self.process.start()
    }

    deinit { try? FileManager.default.removeItem(at: self.folder) }

    private static func output(in folder: URL) -> URL { folder.appendingPathComponent("output") }

    /// Ends curl, as if its user had closed the terminal. Sends SIGKILL, because a child inherits the signals that the
    /// test runner's threads block.
    public func stop() { kill(self.process.processIdentifier, SIGKILL) }

    /// What curl has written so far.
    public var text: String {
        (try? String(contentsOf: Self.output(in: self.folder), encoding: .utf8)) ?? ""
    }

    /// The exit status, once curl has ended. Call it once.
    public var status: Int32 {
        get async {
            await withCheckedContinuation { continuation in
                let isOver = self.ended.withLock { ended in
                    if !ended.isOver { ended.waiter = continuation }
                    return ended.isOver
                }
                if isOver { continuation.resume() }
            }
            return self.process.terminationStatus
        }
    }

    /// Runs curl to its end.
    public static func run(_ arguments: String..., input: [UInt8] = []) async throws -> (text: String, status: Int32) {
        let curl = try Curl(arguments, input: input)
        let status = await curl.status
        return (curl.text, status)
    }
}
