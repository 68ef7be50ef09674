import APNSModel
import Foundation
import TestSupport

@testable import APNSSimulator
@testable import APNSTransport

/// The output and exit status of a command.
struct CommandResult: Sendable {
    var status: Int32
    var output: String
}

enum Command {
    static func path(of name: String) -> String? {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin").split(separator: ":")
        return folders.map { "\($0)/\(name)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    /// Runs a command on a thread of its own and returns its standard output and error as one text.
    static func run(_ name: String, _ arguments: [String]) async throws -> CommandResult {
        guard let path = self.path(of: name) else { throw CocoaError(.fileNoSuchFile) }
        return try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                let process = Process()
                process.executableURL = URL(fileURLWithPath: path)
                process.arguments = arguments
                let pipe = Pipe.make()
                process.standardOutput = pipe
                process.standardError = pipe
                do {
                    try process.start()
                    let data = pipe.fileHandleForReading.readDataToEndOfFile()
                    process.waitUntilExit()
                    continuation.resume(
                        returning: CommandResult(
                            status: process.terminationStatus,
                            output: String(decoding: data, as: UTF8.self)
                        )
                    )
                } catch {
                    continuation.resume(throwing: error)
                }
            }
        }
    }
}

/// A folder that is removed with the value that owns it.
final class TemporaryFolder {
    let url: URL

    init() throws {
        self.url = FileManager.default.temporaryDirectory.appending(path: "simulator-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: self.url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: self.url) }

    func write(_ name: String, _ text: String) throws -> String {
        let file = self.url.appending(path: name)
        try Data(text.utf8).write(to: file)
        return file.path
    }
}

enum Sample {
    static let deviceToken = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
    static let topic = "com.example.app"
    static let payload = #"{"aps":{"alert":"Hello"}}"#

    static var now: Int64 { Int64(Date().timeIntervalSince1970) }
}

/// A request as data, for the rules or for the wire.
struct TestRequest {
    var method = "POST"
    var path = "/3/device/\(Sample.deviceToken)"
    var fields: [(String, String)] = [("apns-topic", Sample.topic), ("apns-push-type", "alert")]
    var body = Sample.payload

    var fieldList: FieldList {
        var list = FieldList()
        list.append(name: ":method", value: self.method)
        list.append(name: ":path", value: self.path)
        for (name, value) in self.fields { list.append(name: name, value: value) }
        return list
    }

    func verdict(_ rules: APNSRules = APNSRules(), credentialFault: RejectionReason? = nil) -> Verdict {
        RequestView.with(self.fieldList) {
            rules.verdict(on: $0, bodyCount: self.body.utf8.count, credentialFault: credentialFault)
        }
    }

    func with(_ name: String, _ value: String) -> TestRequest {
        var copy = self
        copy.fields.removeAll { $0.0 == name }
        copy.fields.append((name, value))
        return copy
    }

    func without(_ name: String) -> TestRequest {
        var copy = self
        copy.fields.removeAll { $0.0 == name }
        return copy
    }

    func sized(_ count: Int) -> TestRequest {
        var copy = self
        copy.body = String(repeating: "x", count: count)
        return copy
    }
}
