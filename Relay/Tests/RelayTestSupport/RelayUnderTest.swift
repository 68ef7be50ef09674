package import Foundation
import NIOHTTP1
import Synchronization

/// A relay in a process of its own, which a test can kill and start again with the same file.
package final class RelayUnderTest: Sendable {
    /// The folder of the built programs.
    package static var products: URL { URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent() }

    package let folder: URL
    /// The file with the queue, unless the settings name a database.
    package let file: String
    private let environment: [String: String]
    private let current = Mutex<RunningProcess?>(nil)

    /// - Parameters:
    ///   - port: the port of the simulated APNs.
    ///   - certificateAuthority: the simulator's certificate authority in PEM form.
    ///   - settings: more environment variables, without the prefix `APNS_RELAY_`.
    package init(port: Int, certificateAuthority: String, settings: [String: String] = [:]) throws {
        self.folder = FileManager.default.temporaryDirectory.appendingPathComponent("relay-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        let authority = self.folder.appendingPathComponent("ca.pem")
        try Data(certificateAuthority.utf8).write(to: authority)
        self.file = self.folder.appendingPathComponent("queue.sqlite").path
        let values = [
            "APPS": "fern", "APP_FERN_TOPIC": "com.grasscove.Fern",
            "SERVER_PRODUCTION": "localhost:\(port)", "SERVER_DEVELOPMENT": "localhost:\(port)",
            "CLIENT_CA_FILE": authority.path, "HTTP_PORT": "0",
            "STORAGE_FILE": self.file, "STORAGE_PROGRESS_FILE": "\(self.file).progress",
            // The simulator stalls with the process of the tests.
            "CLIENT_TIMEOUTS_RESPONSE": "10m",
        ].merging(settings) { $1 }
        self.environment = Dictionary(uniqueKeysWithValues: values.map { ("APNS_RELAY_\($0)", $1) })
        try self.writeSettings(#"{"app":{"fern":{"environments":["production"]}}}"#)
    }

    deinit {
        self.current.withLock { $0 }?.signal(SIGKILL)
        try? FileManager.default.removeItem(at: self.folder)
    }

    /// Starts the process and waits until it listens.
    ///
    /// - Parameters:
    ///   - killPoint: where it kills itself, as `KillPoint` reads it; nil for never.
    ///   - stopPoint: where it stops itself until ``resume()``; nil for never.
    ///   - settings: settings of this process alone, without the prefix `APNS_RELAY_`.
    package func start(
        killPoint: String? = nil,
        stopPoint: String? = nil,
        settings: [String: String] = [:]
    ) async throws {
        var environment = self.environment
        for (name, value) in settings { environment["APNS_RELAY_\(name)"] = value }
        environment["SETTINGS_FILE"] = self.settingsFile.path
        environment["KILL_AT"] = killPoint
        environment["STOP_AT"] = stopPoint
        let process = try RunningProcess.start("KillableRelay", environment)
        self.current.withLock { $0 = process }
        guard await process.waitForPort() else {
            throw RelayTestFailure("the relay did not start: \(process.output)")
        }
    }

    private var settingsFile: URL { self.folder.appendingPathComponent("settings.json") }

    /// Writes the file with settings, which a running process reads again. It has the environments of the app.
    package func writeSettings(_ json: String) throws {
        // A process that starts meanwhile must not see a part of it.
        try Data(json.utf8).write(to: self.settingsFile, options: .atomic)
    }

    /// Sends SIGHUP, which makes the process read its settings again.
    package func hangUp() { self.current.withLock { $0 }?.signal(SIGHUP) }

    /// Changes the environments of the app, and lets the process read the settings again, so that its routes begin again.
    package func reload() async throws {
        let environments = Bool.random() ? #"["production"]"# : #"["production","development"]"#
        try self.writeSettings(#"{"app":{"fern":{"environments":\#(environments)}}}"#)
        // Not SIGHUP, which would end a process that is about to start.
        let response = try await self.request("POST", "/v1/reload")
        guard response.status == 200 else { throw RelayTestFailure(response.text) }
    }

    /// The port of the current process; nil if it does not listen.
    package var port: Int? { self.current.withLock { $0?.port } }

    /// The log of the current process.
    package var output: String { self.current.withLock { $0?.output ?? "" } }

    /// Whether the process has ended.
    package var hasEnded: Bool { self.current.withLock { $0?.hasEnded ?? true } }

    /// The exit status of the process; nil while it runs, and after a signal.
    package var exitStatus: Int32? { self.current.withLock { $0?.exitStatus } }

    package func kill() async {
        let process = self.current.withLock { $0 }
        process?.signal(SIGKILL)
        await process?.waitForEnd()
    }

    package func terminate() async {
        let process = self.current.withLock { $0 }
        process?.signal(SIGTERM)
        await process?.waitForEnd()
    }

    /// Lets a process that has stopped itself go on.
    package func resume() { self.current.withLock { $0 }?.signal(SIGCONT) }

    package func waitForEnd() async { await self.current.withLock { $0 }?.waitForEnd() }

    /// Waits until the process has stopped itself, as `start` says.
    package func waitForStop() async throws {
        let process = self.current.withLock { $0 }
        // The process writes this just before.
        guard await process?.waitForOutput("STOPPING") == true else {
            throw RelayTestFailure("the relay did not stop itself: \(self.output)")
        }
    }

    // MARK: Requests

    /// - Throws: an error if the relay cannot be reached or ends before it has responded.
    package func request(
        _ method: String,
        _ path: String,
        body: String? = nil,
        type: String? = nil,
        headers: [(String, String)] = []
    ) async throws -> TestHTTPClient.Response {
        guard let port = self.port else {
            throw RelayTestFailure("the relay was not started")
        }
        return try await TestHTTPClient.shared.send(
            HTTPMethod(rawValue: method),
            "http://127.0.0.1:\(port)\(path)",
            headers: HTTPHeaders(headers + (type.map { [("content-type", $0)] } ?? [])),
            body: body.map { Array($0.utf8) }
        )
    }

    package func json<Value: Decodable>(_ type: Value.Type, _ path: String) async throws -> Value {
        let response = try await self.request("GET", path)
        guard response.status == 200 else { throw RelayTestFailure("\(path): \(response.text)") }
        return try response.decode(type)
    }
}
