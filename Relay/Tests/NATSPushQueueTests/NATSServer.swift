#if NATS
    import APNSModel
    import Foundation
    import Synchronization

    /// A broker on a free port of this machine, with a store of its own. It can be killed and started again.
    final class NATSServer: Sendable {
        private struct State {
            var port = -1
            var process: Process?
            /// The broker ends when this pipe is closed, so it never outlives the tests.
            var life: Pipe?
        }

        private let state = Mutex(State())
        private let directory: URL
        private let arguments: [String]

        struct Failure: Error {
            var text: String
        }

        /// - Parameter arguments: further arguments of nats-server.
        init(_ arguments: [String] = []) throws {
            self.arguments = arguments
            self.directory = FileManager.default.temporaryDirectory.appending(path: "nats-\(APNSID.random())")
            try FileManager.default.createDirectory(at: self.directory, withIntermediateDirectories: true)
            try self.start()
        }

        deinit {
            self.kill()
            try? FileManager.default.removeItem(at: self.directory)
        }

        var url: String { "nats://127.0.0.1:\(self.state.withLock { $0.port })" }

        /// Starts the broker, after the first time with the same port and store.
        func start() throws {
            let life = Pipe()
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/bin/sh")
            process.arguments =
                [
                    "-c", #""$@" & server=$!; cat; kill -9 $server; wait $server"#, "sh",
                    "/usr/sbin/nats-server", "-a", "127.0.0.1", "-p", "\(self.state.withLock { $0.port })",
                    "-js", "-sd", self.directory.path, "--ports_file_dir", self.directory.path,
                ] + self.arguments
            process.standardInput = life
            process.standardError = FileHandle.nullDevice
            process.standardOutput = FileHandle.nullDevice
            try self.removePortFiles()
            try process.run()
            self.state.withLock { state in
                state.process = process
                state.life = life
            }
            let port = try self.waitForPort()
            self.state.withLock { $0.port = port }
        }

        /// Ends the broker as SIGKILL does.
        func kill() {
            let (process, life) = self.state.withLock { state in
                defer { (state.process, state.life) = (nil, nil) }
                return (state.process, state.life)
            }
            try? life?.fileHandleForWriting.close()
            process?.waitUntilExit()
        }

        private func portFiles() throws -> [URL] {
            try FileManager.default.contentsOfDirectory(at: self.directory, includingPropertiesForKeys: nil)
                .filter { $0.pathExtension == "ports" }
        }

        private func removePortFiles() throws {
            for file in try self.portFiles() { try FileManager.default.removeItem(at: file) }
        }

        /// Waits until the server has written its ports, which it does once it listens.
        private func waitForPort() throws -> Int {
            struct Ports: Decodable { var nats: [String] }
            for _ in 0..<1_000 {
                if let file = try self.portFiles().first, let data = try? Data(contentsOf: file),
                    let ports = try? JSONDecoder().decode(Ports.self, from: data),
                    let port = ports.nats.first.flatMap({ URL(string: $0)?.port })
                {
                    return port
                }
                Thread.sleep(forTimeInterval: 0.01)
            }
            throw Failure(text: "nats-server did not start; install it: apt-get install nats-server")
        }
    }
#endif
