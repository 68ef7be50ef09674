import Foundation
import APNSTransport
import NIOCore
import NIOPosix
import Synchronization

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
    /// Begins at a random number, because other processes may start servers, too.
    private static let portCount = Atomic<Int>(Int.random(in: 0..<8000))

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
            let port = Self.freePort()
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
            try process.start()
            let server = ForeignServer(
                port: port,
                caPEM: authority.certificatePEM,
                directory: directory,
                processID: process.processIdentifier
            )
            if await Self.listens(port, process) { return server }
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

    /// A port that nothing listens on. It is below the range from which the system takes ports for servers that ask for
    /// any port, so that no server of another test gets it before the process does.
    ///
    /// The test itself never listens on it. A process that another test starts at that moment would inherit the socket,
    /// keep the port, and seem to be this server.
    private static func freePort() -> Int {
        while true {
            let port = 20_000 + Self.portCount.add(1, ordering: .relaxed).newValue % 8000
            if ClosedPort(port) != nil { return port }
        }
    }

    /// Waits until the process listens on the port.
    ///
    /// - Returns: False if the process has ended, for example because it could not have the port.
    private static func listens(_ port: Int, _ process: Process) async -> Bool {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let isOver = await eventually {
            guard process.isRunning else { return true }
            guard let channel = try? await ClientBootstrap(group: loop).connect(host: "127.0.0.1", port: port).get()
            else { return false }
            try? await channel.close().get()
            return true
        }
        return isOver && process.isRunning
    }
}
