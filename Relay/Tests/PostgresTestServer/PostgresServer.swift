package import Foundation
import PushQueueConformance
import Synchronization

/// A PostgreSQL server of its own for tests, with its data in a temporary directory. It can be killed and started again. It
/// ends with the process of the tests.
package final class PostgresServer: Sendable {
    private struct State {
        var process: Process?
        /// The server ends when this pipe is closed, so it never outlives the tests. A line kills it.
        var life: Pipe?
    }

    package struct Failure: Error, CustomStringConvertible {
        package var description: String
    }

    package let port: Int
    /// The directory of the data, the socket and the log.
    package let directory: URL
    private let data: String
    private let state = Mutex(State())

    /// Creates a cluster and starts its server.
    ///
    /// - Parameters:
    ///   - settings: lines for `postgresql.conf`.
    ///   - disk: where its data is; nil for its directory.
    ///   - logDisk: where its write-ahead log is, whose files have a megabyte each; nil for the place of its data.
    package init(_ settings: [String] = [], on disk: SmallDisk? = nil, logOn logDisk: SmallDisk? = nil) throws {
        self.port = try Self.freePort()
        self.directory = URL(fileURLWithPath: "/tmp").appending(path: "postgres-\(UUID().uuidString.prefix(8))")
        self.data = (disk?.directory ?? self.directory).appending(path: "data").path
        try FileManager.default.createDirectory(at: self.directory, withIntermediateDirectories: true)
        if let owner = Self.account { try Self.run("/bin/chown", [owner, self.directory.path]) }
        let log = logDisk.map { ["-X", $0.directory.appending(path: "log").path, "--wal-segsize", "1"] } ?? []
        try Self.runAsOwner(
            "initdb",
            ["-D", self.data, "-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8", "--no-instructions", "-N"]
                + log
        )
        try self.configure(
            self.address + [
                "listen_addresses = ''", "max_connections = 200", "shared_buffers = 128MB", "max_wal_size = 4GB",
            ] + settings
        )
        try self.start()
    }

    /// Lines for `postgresql.conf`.
    private var address: [String] {
        ["unix_socket_directories = '\(self.directory.path)'", "port = \(self.port)"]
    }

    deinit { self.end() }

    /// Appends lines to `postgresql.conf`.
    package func configure(_ lines: [String]) throws {
        let file = "\(self.data)/postgresql.conf"
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: file))
        try handle.seekToEnd()
        try handle.write(contentsOf: Data((lines.joined(separator: "\n") + "\n").utf8))
        try handle.close()
    }

    /// A connection string for libpq.
    ///
    /// - Parameter standby: another server that the string also names.
    package func url(_ database: String, user: String = "postgres", standby: PostgresServer? = nil) -> String {
        let servers = [self] + (standby.map { [$0] } ?? [])
        let hosts = servers.map(\.directory.path).joined(separator: ",")
        let ports = servers.map { "\($0.port)" }.joined(separator: ",")
        return "host=\(hosts) port=\(ports) dbname=\(database) user=\(user)"
    }

    /// The last lines of the server's log.
    package var log: String {
        (try? String(contentsOf: self.directory.appending(path: "log"), encoding: .utf8)) ?? ""
    }

    // MARK: Life

    /// Starts the server, and waits until it can be used.
    package func start() throws {
        let life = Pipe.make()
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments =
            [
                "-c",
                #"""
                "$@" >>log 2>&1 & server=$!
                if read -r line; then
                  kill -9 $server; wait $server
                else
                  kill -QUIT $server; wait $server; rm -rf "$PWD"
                fi
                """#, "sh",
            ] + Self.asOwner("postgres", ["-D", self.data])
        process.currentDirectoryURL = self.directory
        process.standardInput = life
        try Self.launch(process)
        self.state.withLock { state in
            state.process = process
            state.life = life
        }
        try self.wait(for: "the server can be used") { self.isUsable }
    }

    /// Polls until a condition holds, on this thread.
    private func wait(for purpose: String, _ condition: () throws -> Bool) throws {
        let end = ContinuousClock.now.advanced(by: Patience.limit)
        while try !condition() {
            guard ContinuousClock.now < end else {
                throw Failure(description: "\(purpose): this did not happen:\n\(self.log)")
            }
            usleep(10_000)
        }
    }

    /// Whether the server responds.
    package var isUsable: Bool { (try? self.run("SELECT 1")) != nil }

    private static let nextPort = Atomic(Int.random(in: 0..<10_000))

    /// A free port below Linux's range for outgoing connections. From that range, a connection could take the port while
    /// the server is killed. Two servers of this process never get the same one.
    private static func freePort() throws -> Int {
        for _ in 0..<1000 {
            let port = 20_000 + Self.nextPort.wrappingAdd(1, ordering: .relaxed).oldValue % 12_000
            let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(socket) }
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = in_port_t(port).bigEndian
            address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
            let isFree = withUnsafeBytes(of: address) { bytes in
                bytes.withMemoryRebound(to: sockaddr.self) { bind(socket, $0.baseAddress, socklen_t(bytes.count)) == 0 }
            }
            if isFree { return port }
        }
        throw Failure(description: "no port from 20000 to 31999 is free")
    }

    /// Ends the server as SIGKILL does.
    package func kill() { self.stop(kills: true) }

    /// Ends the server at once, and removes its data and its shared memory, which SIGKILL leaves behind.
    package func end() {
        self.stop(kills: false)
        try? FileManager.default.removeItem(at: self.directory)
    }

    private func stop(kills: Bool) {
        let (process, life) = self.state.withLock { state in
            defer { (state.process, state.life) = (nil, nil) }
            return (state.process, state.life)
        }
        guard let process, let life else { return }
        if kills { try? life.fileHandleForWriting.write(contentsOf: Data("kill\n".utf8)) }
        try? life.fileHandleForWriting.close()
        process.waitUntilExit()
    }

    /// Kills the server, and copies its data.
    ///
    /// - Parameter promotes: whether the restored server begins a new timeline, as one does that replays an archive.
    /// - Returns: restores the copy and starts the server with it.
    package func backUp(promotes: Bool) throws -> @Sendable () throws -> Void {
        self.kill()
        try Self.run("/bin/cp", ["-a", self.data, "\(self.data)-backup"])
        try self.start()
        return {
            self.kill()
            try Self.run("/bin/rm", ["-rf", self.data])
            try Self.run("/bin/cp", ["-a", "\(self.data)-backup", self.data])
            try self.start()
            if promotes { try self.promote() }
        }
    }

    /// Dumps the schema of the queue with pg_dump.
    ///
    /// - Returns: replaces the schema by the dumped one, in the same database.
    package func dump(_ database: String) throws -> @Sendable () throws -> Void {
        let dump = try Self.run("\(Self.binaries)/pg_dump", ["-n", "apns", "-d", self.url(database)])
        let file = self.directory.appending(path: "dump.sql")
        try Data(dump.utf8).write(to: file)
        return {
            try self.run("DROP SCHEMA apns CASCADE", in: database)
            try Self.run(
                "\(Self.binaries)/psql",
                ["-d", self.url(database), "-Xq", "-v", "ON_ERROR_STOP=1", "-f", file.path]
            )
        }
    }

    // MARK: Standbys

    /// Makes this server a standby of another one, which streams its changes. All that this server had is gone.
    package func follow(_ primary: PostgresServer) throws {
        self.kill()
        // Processes of the killed server may still write for a moment.
        let old = "\(self.data)-old"
        try Self.run("/bin/rm", ["-rf", old])
        try Self.run("/bin/mv", [self.data, old])
        let source = "\(primary.url("postgres")) application_name=standby"
        try Self.runAsOwner("pg_basebackup", ["-D", self.data, "-R", "-c", "fast", "-N", "-d", source])
        try self.configure(self.address)
        try self.start()
    }

    /// Ends the streaming of this standby, which then lacks all later changes.
    package func stopFollowing() throws {
        try self.run("ALTER SYSTEM SET primary_conninfo = ''")
        try self.run("SELECT pg_reload_conf()")
        try self.wait(for: "no log is received") {
            try self.run("SELECT count(*) FROM pg_stat_wal_receiver") == "0"
        }
    }

    /// Lets this standby accept changes. A server that is none becomes one first. A new timeline begins.
    package func promote() throws {
        if try self.run("SELECT pg_is_in_recovery()") == "f" {
            self.kill()
            let file = "\(self.data)/standby.signal"
            try Data().write(to: URL(fileURLWithPath: file))
            if let owner = Self.account { try Self.run("/bin/chown", [owner, file]) }
            try self.start()
        }
        try self.run("SELECT pg_promote(true, 60)")
        try self.wait(for: "the standby is promoted") { try self.run("SELECT pg_is_in_recovery()") == "f" }
    }

    /// Sets the standbys that each commit waits for.
    package func setSynchronousStandbys(_ names: String) throws {
        try self.run("ALTER SYSTEM SET synchronous_standby_names = '\(names)'")
        try self.run("SELECT pg_reload_conf()")
        try self.wait(for: "the standbys are set") { try self.run("SHOW synchronous_standby_names") == names }
    }

    /// Lets each commit wait for the server that follows this one, and waits until that has all changes until now.
    package func waitForStandby() throws {
        try self.setSynchronousStandbys("standby")
        let synchronous = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        try self.wait(for: "the standby is synchronous") { try self.run(synchronous) != "0" }
        // The checkpointer reads the settings first, and commits wait only after that.
        try self.run("CHECKPOINT")
        try self.run("SELECT pg_logical_emit_message(true, '', '')")
    }

    /// Starts a program that receives the write-ahead log and confirms it, as a standby does. It ends with the server.
    ///
    /// - Parameter name: its name in `synchronous_standby_names`.
    package func receiveLog(as name: String) throws {
        let directory = self.directory.appending(path: "log-\(name)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "\(Self.binaries)/pg_receivewal")
        process.arguments = [
            "-D", directory.path, "--synchronous", "--no-loop", "-d",
            "host=\(self.directory.path) port=\(self.port) user=postgres application_name=\(name)",
        ]
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.start()
    }

    // MARK: SQL

    /// Runs SQL with psql.
    ///
    /// - Returns: the rows, as lines without headings.
    @discardableResult
    package func run(_ sql: String, in database: String = "postgres", as user: String = "postgres") throws -> String {
        try Self.run(
            "\(Self.binaries)/psql",
            [
                "-d", self.url(database, user: user), "-XqAt", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", "-c",
                sql,
            ]
        )
    }

    /// Creates a database with a name of its own.
    ///
    /// - Parameter template: the database whose contents it begins with. Nobody may be connected to it.
    package func createDatabase(_ template: String = "template0") throws -> String {
        let name = "test_\(UUID().uuidString.prefix(8).lowercased())"
        try self.run("CREATE DATABASE \(name) TEMPLATE \(template)")
        return name
    }

    // MARK: Programs

    /// The directory of the newest installed version.
    private static let binaries: String = {
        let root = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        let newest = versions.compactMap { Int($0) }.max()
        return newest.map { "\(root)/\($0)/bin" } ?? "/usr/bin"
    }()

    /// The account of the server if this process is root, whom PostgreSQL refuses.
    static let account: String? = geteuid() == 0 ? "postgres" : nil

    private static func asOwner(_ program: String, _ arguments: [String]) -> [String] {
        self.asOwner(["\(self.binaries)/\(program)"] + arguments)
    }

    /// A command that runs a program as the owner of the server.
    static func asOwner(_ command: [String]) -> [String] {
        guard let account else { return command }
        return ["/usr/bin/setpriv", "--reuid", account, "--regid", account, "--clear-groups"] + command
    }

    private static func runAsOwner(_ program: String, _ arguments: [String]) throws {
        let command = self.asOwner(program, arguments)
        try self.run(command[0], Array(command.dropFirst()))
    }

    /// Starts a shell with a long-lived child. It has none of this process's files, so that a pipe to this process ends with
    /// this process.
    static func launch(_ process: Process) throws {
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        // Threads of Dispatch block all signals. The shell would inherit that, and not notice that its child has ended.
        var (none, mask) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, &mask)
        defer { pthread_sigmask(SIG_SETMASK, &mask, nil) }
        try process.start()
    }

    @discardableResult
    static func run(_ program: String, _ arguments: [String]) throws -> String {
        let process = Process()
        let (output, errors) = (Pipe.make(), Pipe.make())
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        process.currentDirectoryURL = URL(fileURLWithPath: "/tmp")
        process.standardOutput = output
        process.standardError = errors
        process.standardInput = FileHandle.nullDevice
        try process.start()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        let problem = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw Failure(description: "\(program) \(arguments.joined(separator: " ")): \(problem)")
        }
        return text.trimmingCharacters(in: .newlines)
    }
}
