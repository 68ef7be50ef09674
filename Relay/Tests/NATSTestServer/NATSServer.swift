import Foundation
import Synchronization

/// A broker on a free port of this machine, with a store of its own, for tests. It can be killed and started again. It
/// ends with the process of the tests.
package final class NATSServer: Sendable {
    private struct State {
        var process: Process?
        /// The broker ends when this pipe is closed, so it never outlives the tests.
        var life: Pipe?
    }

    package struct Failure: Error {
        package var text: String
    }

    package let port: Int
    private let state = Mutex(State())
    private let directory: URL
    private let arguments: [String]
    private let storeBytes: Int?

    /// - Parameters:
    ///   - arguments: further arguments of nats-server.
    ///   - storeBytes: the size of the disk with the store, which is then a file system of its own; nil for the disk of
    ///     temporary files.
    package convenience init(_ arguments: [String] = [], storeBytes: Int? = nil) throws {
        let ports = try Self.freePorts(1)
        try self.init(ports[0], arguments, storeBytes: storeBytes)
        try self.start()
    }

    private init(_ port: Int, _ arguments: [String], storeBytes: Int? = nil) throws {
        self.port = port
        self.arguments = arguments
        self.storeBytes = storeBytes
        self.directory = FileManager.default.temporaryDirectory.appending(path: "nats-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: self.directory, withIntermediateDirectories: true)
    }

    deinit {
        self.kill()
        try? FileManager.default.removeItem(at: self.directory)
    }

    package var url: String { "nats://127.0.0.1:\(self.port)" }

    /// What the broker has logged.
    package var log: String { (try? String(contentsOf: self.directory.appending(path: "log"), encoding: .utf8)) ?? "" }

    /// Brokers that form one cluster.
    package static func cluster(_ count: Int = 3) throws -> [NATSServer] {
        let ports = try Self.freePorts(2 * count)
        let routes = (0..<count).map { "nats://127.0.0.1:\(ports[2 * $0 + 1])" }.joined(separator: ",")
        let servers = try (0..<count).map { number in
            try NATSServer(
                ports[2 * number],
                [
                    "--name", "broker-\(number)", "--cluster_name", "tests",
                    "--cluster", "nats://127.0.0.1:\(ports[2 * number + 1])", "--routes", routes,
                ]
            )
        }
        // One after the other: brokers that connect to each other at the same moment can both give up.
        for server in servers { try server.start() }
        // The leader itself says it in other words.
        let elected = ["JetStream cluster new metadata leader", "Self is new JetStream cluster metadata leader"]
        for server in servers { try server.wait(for: elected) }
        return servers
    }

    /// Starts the broker again, with the same port and store.
    ///
    /// - Parameter arguments: further arguments of nats-server for this time.
    package func start(_ arguments: [String] = []) throws {
        try self.launch(arguments)
        try self.wait(for: ["Server is ready"])
    }

    private func launch(_ arguments: [String]) throws {
        try? FileManager.default.removeItem(at: self.directory.appending(path: "log"))
        let life = Pipe()
        let process = Process()
        let store = self.directory.appending(path: "store").path
        try FileManager.default.createDirectory(atPath: store, withIntermediateDirectories: true)
        // The mount is seen only in the broker's own namespace, and ends with it.
        let mount = self.storeBytes.map { "mount -t tmpfs -o size=\($0) tmpfs '\(store)' && " } ?? ""
        let shell =
            self.storeBytes == nil ? ["/bin/sh"] : ["/usr/bin/unshare", "--mount", "--map-root-user", "/bin/sh"]
        process.executableURL = URL(fileURLWithPath: shell[0])
        process.arguments =
            Array(shell.dropFirst()) + [
                "-c",
                mount
                    + #"serve() { "$@" & server=$!; }; serve "$@"; while read -r line; do eval "$line"; : > done; done; "#
                    + "kill -9 $server; wait $server", "sh",
                "/usr/sbin/nats-server", "-a", "127.0.0.1", "-p", "\(self.port)",
                "-js", "-sd", store, "-P", self.directory.appending(path: "pid").path, "-l",
                self.directory.appending(path: "log").path,
            ] + self.arguments + arguments
        process.currentDirectoryURL = self.directory
        process.standardInput = life
        process.standardError = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        // Threads of Dispatch block all signals, and the shell would inherit that and never see that the broker has ended.
        var (none, mask) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, &mask)
        defer { pthread_sigmask(SIG_SETMASK, &mask, nil) }
        try process.run()
        self.state.withLock { state in
            state.process = process
            state.life = life
        }
    }

    /// Ends the broker as SIGKILL does.
    package func kill() {
        let (process, life) = self.state.withLock { state in
            defer { (state.process, state.life) = (nil, nil) }
            return (state.process, state.life)
        }
        try? life?.fileHandleForWriting.close()
        while process?.isRunning == true { Thread.sleep(forTimeInterval: 0.002) }
    }

    /// Ends the broker as SIGKILL does, and starts it again with the same disk, also if that is one of its own.
    package func restart() throws {
        try? FileManager.default.removeItem(at: self.directory.appending(path: "log"))
        try self.run(#"kill -9 $server; wait $server; serve "$@""#)
        try self.wait(for: ["Server is ready"])
    }

    /// Fills the disk with the store, which must be one of its own, until not a byte more fits.
    package func fillDisk() throws { try self.run("cat /dev/zero > store/ballast") }

    /// Removes what ``fillDisk()`` has written.
    package func freeDisk() throws { try self.run("rm store/ballast") }

    /// Runs commands of the shell where the broker's disk is mounted.
    private func run(_ commands: String) throws {
        let done = self.directory.appending(path: "done")
        try? FileManager.default.removeItem(at: done)
        let life = self.state.withLock { $0.life }
        try life?.fileHandleForWriting.write(contentsOf: Data("\(commands)\n".utf8))
        for _ in 0..<3_000 {
            if FileManager.default.fileExists(atPath: done.path) { return }
            Thread.sleep(forTimeInterval: 0.01)
        }
        throw Failure(text: "the shell of the broker did not run: \(commands)")
    }

    /// Stops the broker's process without ending it, as a machine that hangs.
    package func pause() { self.signal(SIGSTOP) }

    package func resume() { self.signal(SIGCONT) }

    /// The CPU time of the broker's process.
    package var cpuSeconds: Double { self.processIdentifier.map { Self.cpuSeconds(of: $0) } ?? 0 }

    /// User and system time of a process, in seconds. Linux only; 0 elsewhere.
    package static func cpuSeconds(of process: Int32) -> Double {
        guard let text = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8) else { return 0 }
        // The name, in parentheses, may contain spaces. The times are the 12th and 13th fields after it.
        let fields = text.split(separator: ")").last?.split(separator: " ").map { Double($0) } ?? []
        guard fields.count > 12, let user = fields[11], let system = fields[12] else { return 0 }
        return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    private var processIdentifier: Int32? {
        let file = self.directory.appending(path: "pid").path
        return (try? String(contentsOfFile: file, encoding: .utf8)).flatMap { Int32($0.filter(\.isNumber)) }
    }

    private func signal(_ number: Int32) {
        guard let identifier = self.processIdentifier else { return }
        Foundation.kill(identifier, number)
    }

    /// Waits until the log of this start has one of some texts.
    private func wait(for texts: [String]) throws {
        for _ in 0..<3_000 {
            let log = self.log
            if texts.contains(where: { log.contains($0) }) { return }
            Thread.sleep(forTimeInterval: 0.01)
        }
        throw Failure(text: "nats-server did not start; is it installed (apt-get install nats-server)? \(self.log)")
    }

    /// Ports that were free a moment ago.
    private static func freePorts(_ count: Int) throws -> [Int] {
        var sockets: [Int32] = []
        defer { for descriptor in sockets { close(descriptor) } }
        return try (0..<count).map { _ in
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            sockets.append(descriptor)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let result = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                    bind(descriptor, pointer, length) == 0 && getsockname(descriptor, pointer, &length) == 0
                }
            }
            guard descriptor >= 0, result else { throw Failure(text: "no free port") }
            return Int(UInt16(bigEndian: address.sin_port))
        }
    }
}
