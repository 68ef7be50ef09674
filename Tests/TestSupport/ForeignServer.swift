import Foundation
import HTTP2Wire
import NIOCore
import NIOPosix

/// A third-party server in its own process, with files in its own directory.
package final class ForeignServer: Sendable {
    package static func isInstalled(_ tool: String) -> Bool { self.path(of: tool) != nil }

    static func path(of tool: String) -> String? {
        let places = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        return (places + ["/usr/sbin", "/usr/local/sbin"]).map { "\($0)/\(tool)" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    package let port: Int
    package let caPEM: String
    package let directory: String
    private let processID: Int32

    /// - Parameters:
    ///   - files: the files in its directory besides `cert.pem`, `key.pem` and `ca.pem`.
    ///   - arguments: returns the command line for the port and the directory.
    package static func start(
        _ tool: String,
        files: [String: @Sendable (Int) -> String] = [:],
        arguments: (_ port: Int, _ directory: String) -> [String]
    ) async throws -> ForeignServer {
        let authority = try CertificateAuthority()
        let identity = try authority.issue(names: ["localhost", "127.0.0.1"])
        let directory = NSTemporaryDirectory() + "foreign-server-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        // Another process may take the port between its choice and its use.
        for attempt in 1...3 {
            let port = try await Self.freePort()
            var texts = [
                "cert.pem": identity.certificateChainPEM, "key.pem": identity.privateKeyPEM,
                "ca.pem": authority.certificatePEM,
            ]
            for (name, text) in files { texts[name] = text(port) }
            for (name, text) in texts {
                try text.write(toFile: "\(directory)/\(name)", atomically: true, encoding: .utf8)
            }
            let process = Process()
            process.executableURL = URL(fileURLWithPath: Self.path(of: tool) ?? tool)
            process.arguments = arguments(port, directory)
            process.currentDirectoryURL = URL(fileURLWithPath: directory)
            process.standardInput = FileHandle.nullDevice
            process.standardOutput = FileHandle.nullDevice
            process.standardError = FileHandle.nullDevice
            try process.run()
            let server = ForeignServer(
                port: port,
                caPEM: authority.certificatePEM,
                directory: directory,
                processID: process.processIdentifier
            )
            if await Self.listens(port) { return server }
            server.end()
            if attempt == 3 { break }
        }
        throw WireError(.connectFailed, "\(tool) did not start")
    }

    private init(port: Int, caPEM: String, directory: String, processID: Int32) {
        self.port = port
        self.caPEM = caPEM
        self.directory = directory
        self.processID = processID
    }

    package func stop() {
        self.end()
        try? FileManager.default.removeItem(atPath: self.directory)
    }

    /// Sends SIGKILL: a child inherits the signals that the test runner's threads block, SIGTERM among them.
    private func end() { kill(self.processID, SIGKILL) }

    private static func freePort() async throws -> Int {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = channel.localAddress?.port ?? 0
        try await channel.close().get()
        return port
    }

    /// Tries to connect, up to 400 times 25 ms.
    private static func listens(_ port: Int) async -> Bool {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        for _ in 0..<400 {
            if let channel = try? await ClientBootstrap(group: loop).connect(host: "127.0.0.1", port: port).get() {
                try? await channel.close().get()
                return true
            }
            _ = try? await loop.scheduleTask(in: .milliseconds(25)) {}.futureResult.get()
        }
        return false
    }
}
