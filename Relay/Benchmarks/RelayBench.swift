import APNSModel
import APNSPool
import APNSRelay
import APNSSimulator
import ArgumentParser
import Foundation
import Logging
import NIOHTTP1
import PostgresPushQueue
import PostgresTestServer
import PushQueue
import RelayTestSupport

@main
struct RelayBench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "relay-bench",
        abstract: "Measures the relay. Relay/bench.sh runs it beside the library's harness.",
        subcommands: [Drain.self, Intake.self, Memory.self, Queue.self, FleetRun.self, BatchRun.self, WebPushRun.self]
    )
}

/// A relay's file in a folder that is removed at the end, or a database in a server that ends then.
struct BenchQueue {
    let folder: URL
    let server: PostgresServer?
    var settings: RelaySettings
    let logger: Logger

    init(postgres: Bool = false, serverSettings: [String] = []) throws {
        self.folder = FileManager.default.temporaryDirectory.appendingPathComponent("relay-bench-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        self.settings = RelaySettings(apps: [])
        self.settings.storage.file = self.folder.appendingPathComponent("queue.sqlite").path
        self.settings.storage.capacity = 100_000_000
        self.server = postgres ? try PostgresServer(serverSettings) : nil
        self.settings.storage.postgres = try self.server.map { try ConnectionSettings($0.url(try $0.createDatabase())) }
        self.settings.http.port = 0
        var logger = Logger(label: "relay-bench")
        logger.logLevel = .error
        self.logger = logger
    }

    mutating func setServer(port: Int, certificateAuthority: String?) {
        let server = APNSEnvironment.custom(host: "localhost", port: port)
        self.settings.apps = [
            RelayApp(
                name: "fern",
                topic: "com.grasscove.Fern",
                authentication: .token(privateKeyPEM: SimulatedKey().p8, keyID: "ABC123DEFG", teamID: "ABCDE12345"),
                environments: ["production": server]
            )
        ]
        if let certificateAuthority {
            self.settings.group.client.trust.caFile = certificateAuthority
        }
    }

    func open() async throws -> any PushQueue {
        try await self.settings.storage.open(logger: self.logger).queue
    }

    /// Starts a relay with the queue.
    ///
    /// - Returns: the running relay, which ends when the task is cancelled, and its port.
    func start(_ queue: any PushQueue) async throws -> (running: Task<Void, any Error>, port: Int) {
        let relay = try Relay(
            settings: self.settings,
            queue: queue,
            prometheus: PrometheusMetrics(),
            logger: self.logger
        )
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        let running = Task { try await relay.run { port.yield($0) } }
        guard let bound = await ports.first(where: { _ in true }) else { throw ExitCode.failure }
        return (running, bound)
    }

    /// The size of the file, or of the database.
    var bytes: Int {
        let newest = "SELECT max(datname) FROM pg_database WHERE datname LIKE 'test_%'"
        guard let server, let database = try? server.run(newest) else {
            let file = try? FileManager.default.attributesOfItem(atPath: self.settings.storage.file)
            return (file?[.size] as? Int) ?? 0
        }
        return (try? server.run("SELECT pg_database_size('\(database)')")).flatMap { Int($0) } ?? 0
    }

    /// Stores pushes, each with a payload of its own, in transactions of 1,000.
    func fill(_ queue: any PushQueue, _ count: Int) async throws {
        let now = SystemQueueClock().now
        for start in stride(from: 0, to: count, by: 1_000) {
            let pushes = try (start..<min(start + 1_000, count)).map { number in
                NewPush(
                    // Ids that begin with the time, as the relay makes them.
                    id: APNSID(
                        high: UInt64(now.millisecondsSince1970) << 16 | 0x7000,
                        low: 0x8000_0000_0000_0000 | UInt64(number)
                    ),
                    route: Route(app: "fern", environment: "production", lane: .bulk, caller: "bench"),
                    token: try DeviceToken(Self.token(number)),
                    push: try PreparedPush(
                        topic: "com.grasscove.Fern",
                        pushType: .alert,
                        payload: Self.payload(number)
                    ),
                    notBefore: now,
                    deadline: now.advanced(by: .seconds(86_400))
                )
            }
            _ = try await queue.enqueue(pushes, isPartial: false)
        }
    }

    func remove() {
        self.server?.end()
        try? FileManager.default.removeItem(at: self.folder)
    }

    static func token(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 64 - digits.count) + digits
    }

    /// 300 bytes.
    static func payload(_ number: Int) -> [UInt8] {
        let start = "{\"aps\":{\"alert\":{\"title\":\"Push \(number)\",\"body\":\""
        let end = "\"},\"badge\":1}}"
        let body = String(repeating: "x", count: max(300 - start.utf8.count - end.utf8.count, 0))
        return Array((start + body + end).utf8)
    }
}

/// `relay-bench drain`
struct Drain: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Sends a full queue to a simulator.")

    @Flag(help: "Use PostgreSQL instead of SQLite.")
    var postgres = false

    @Option var port: Int
    @Option var caFile: String?
    @Option var pushes = 200_000

    func run() async throws {
        var bench = try BenchQueue(postgres: self.postgres)
        defer { bench.remove() }
        bench.setServer(port: self.port, certificateAuthority: self.caFile)
        let queue = try await bench.open()
        try await bench.fill(queue, self.pushes)
        let relay = try Relay(
            settings: bench.settings,
            queue: queue,
            prometheus: PrometheusMetrics(),
            logger: bench.logger
        )
        let start = ContinuousClock.now
        let cpu = ProcessFigures.cpuSeconds
        let running = Task { try await relay.run() }
        while try await queue.counts().unsettled > 0 { try await Task.sleep(for: .milliseconds(10)) }
        let seconds = start.duration(to: .now) / .seconds(1)
        let rate = Int(Double(self.pushes) / seconds)
        let micros = (ProcessFigures.cpuSeconds - cpu) / Double(self.pushes) * 1e6
        print(
            "drained \(rate) pushes a second, \(micros.formatted(.number.precision(.fractionLength(1)))) µs of CPU each"
        )
        running.cancel()
        _ = await running.result
    }
}

/// `relay-bench intake`
struct Intake: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Hands pushes in over HTTP, in requests of several sizes; client and relay are in one process."
    )

    @Flag(help: "Use PostgreSQL instead of SQLite.")
    var postgres = false

    @Option var pushes = 200_000
    @Option var clients = 8

    func run() async throws {
        for size in [1, 10, 100, 1_000, 5_000] {
            let rate = try await self.rate(perRequest: size)
            print("intake: \(size) pushes a request, \(self.clients) clients: \(rate) pushes a second")
        }
    }

    private func rate(perRequest size: Int) async throws -> Int {
        var bench = try BenchQueue(postgres: self.postgres)
        defer { bench.remove() }
        bench.setServer(port: 9, certificateAuthority: nil)
        let (running, bound) = try await bench.start(try await bench.open())
        // Not due, so that nothing but the intake is measured.
        let later = SystemQueueClock().now.millisecondsSince1970 / 1_000 + 3_600
        let count = min(self.pushes, size * 20_000)
        let requests = max(count / size / self.clients, 1)
        let client = TestHTTPClient()
        let start = ContinuousClock.now
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<self.clients {
                group.addTask {
                    for number in 0..<requests {
                        let first = (worker * requests + number) * size
                        let lines = (first..<(first + size)).map { number in
                            let payload = String(decoding: BenchQueue.payload(number), as: UTF8.self)
                            return """
                                {"app":"fern","token":"\(BenchQueue.token(number))","headers":{"apns-push-type":"alert"},\
                                "payload":\(payload),"notBefore":\(later),"idempotencyKey":"\(number)"}
                                """
                        }
                        let response = try await client.send(
                            .POST,
                            "http://127.0.0.1:\(bound)/v1/pushes",
                            headers: ["content-type": "application/x-ndjson"],
                            body: Array(lines.joined(separator: "\n").utf8)
                        )
                        guard response.status == 202 else { throw ExitCode.failure }
                    }
                }
            }
            try await group.waitForAll()
        }
        let seconds = start.duration(to: .now) / .seconds(1)
        running.cancel()
        _ = await running.result
        return Int(Double(requests * self.clients * size) / seconds)
    }
}

/// `relay-bench memory`
struct Memory: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Fills a queue, opens it again, and prints the memory.")

    @Flag(help: "Use PostgreSQL instead of SQLite.")
    var postgres = false

    @Option var queued = 1_000_000

    func run() async throws {
        let bench = try BenchQueue(postgres: self.postgres)
        defer { bench.remove() }
        let first = try await bench.open()
        let start = ContinuousClock.now
        try await bench.fill(first, self.queued)
        let filled = start.duration(to: .now) / .seconds(1)
        await first.close()
        let opening = ContinuousClock.now
        let second = try await bench.open()
        let opened = opening.duration(to: .now) / .seconds(1)
        let counts = try await second.counts()
        print(
            """
            memory: \(counts.queued) queued pushes of 300 bytes: \(ProcessFigures.residentMiB) MiB resident, storage \
            \(bench.bytes / 1_048_576) MiB, stored at \(Int(Double(self.queued) / filled)) a second, opened again in \
            \(opened.formatted(.number.precision(.fractionLength(2)))) s
            """
        )
        await second.close()
    }
}

enum ProcessFigures {
    /// User and system time of this process.
    static var cpuSeconds: Double {
        var usage = rusage()
        #if canImport(Glibc)
            getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        #else
            getrusage(RUSAGE_SELF, &usage)
        #endif
        func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
        return seconds(usage.ru_utime) + seconds(usage.ru_stime)
    }

    /// User and system time of another process. Linux only; 0 elsewhere.
    static func cpuSeconds(of process: Int32) -> Double { Self.times(of: process).map { $0[0] + $0[1] } ?? 0 }

    /// User and system time of a database server and of its present and past processes. Linux only; 0 elsewhere.
    static func cpuSeconds(of server: PostgresServer) -> Double {
        let file = server.directory.appending(path: "data/postmaster.pid").path
        let text = try? String(contentsOfFile: file, encoding: .utf8)
        guard let main = text?.split(separator: "\n").first.flatMap({ Int32($0) }) else { return 0 }
        let ended = Self.times(of: main).map { $0.reduce(0, +) } ?? 0
        let processes = (try? FileManager.default.contentsOfDirectory(atPath: "/proc"))?.compactMap { Int32($0) } ?? []
        return processes.filter { Self.fields(of: $0)?.dropFirst().first == Double(main) }
            .map { Self.cpuSeconds(of: $0) }
            .reduce(ended, +)
    }

    /// The user and system time of a process, and those of its children that have ended.
    private static func times(of process: Int32) -> [Double]? {
        guard let fields = Self.fields(of: process), fields.count > 14 else { return nil }
        return fields[11...14].map { ($0 ?? 0) / Double(sysconf(Int32(_SC_CLK_TCK))) }
    }

    /// The fields of `/proc/PID/stat` after the name, which is in parentheses and may contain spaces: the state, the parent
    /// and so on.
    private static func fields(of process: Int32) -> [Double?]? {
        let text = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
        return text?.split(separator: ")").last?.split(separator: " ").map { Double($0) }
    }

    /// Linux only; 0 elsewhere.
    static var residentMiB: Int { self.residentMiB(of: getpid()) }

    /// Linux only; 0 elsewhere.
    static func residentMiB(of process: Int32) -> Int {
        guard let status = try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8) else { return 0 }
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
        return (line?.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) } ?? 0) / 1_024
    }
}
