import Foundation
import PushQueueConformance

/// A PgBouncer before a server, for tests. It ends with the process of the tests.
package final class PgBouncer: Sendable {
    package let port: Int
    private let server: PostgresServer
    private let process: Process
    private let life = Pipe.make()

    /// Whether the program is installed.
    package static var isInstalled: Bool { FileManager.default.isExecutableFile(atPath: Self.program) }

    private static let program = "/usr/sbin/pgbouncer"

    /// - Parameters:
    ///   - server: the server, of which at most ten sessions are used.
    ///   - mode: `session` or `transaction`.
    package init(_ server: PostgresServer, mode: String) throws {
        self.server = server
        self.port = Int.random(in: 20_000..<60_000)
        let directory = server.directory
        let file = directory.appending(path: "pgbouncer.ini")
        try """
        [databases]
        * = host=\(directory.path) port=\(server.port) user=postgres
        [pgbouncer]
        listen_addr =
        listen_port = \(self.port)
        unix_socket_dir = \(directory.path)
        auth_type = any
        pool_mode = \(mode)
        default_pool_size = 10
        ignore_startup_parameters = extra_float_digits
        """
        .write(to: file, atomically: true, encoding: .utf8)
        self.process = Process()
        self.process.executableURL = URL(fileURLWithPath: "/bin/sh")
        self.process.arguments =
            [
                "-c", #""$@" >>pgbouncer.log 2>&1 & server=$!; read -r line; kill -9 $server; wait $server"#, "sh",
            ] + PostgresServer.asOwner([Self.program, file.path])
        self.process.currentDirectoryURL = directory
        self.process.standardInput = self.life
        try PostgresServer.launch(self.process)
        let socket = directory.appending(path: ".s.PGSQL.\(self.port)").path
        while !FileManager.default.fileExists(atPath: socket), self.process.isRunning { usleep(10_000) }
    }

    deinit {
        try? self.life.fileHandleForWriting.close()
        self.process.waitUntilExit()
    }

    /// A connection string for libpq.
    package func url(_ database: String) -> String {
        "host=\(self.server.directory.path) port=\(self.port) dbname=\(database) user=postgres"
    }
}
