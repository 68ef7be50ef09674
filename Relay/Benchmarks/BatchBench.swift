import APNSRelay
import ArgumentParser
import Foundation
import Logging
import NIOHTTP1
import PushQueue
import RelayTestSupport
import Synchronization

/// `relay-bench batch`
struct BatchRun: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "batch",
        abstract: "Submits a batch in one request; with a server, sends it, and single pushes beside it."
    )

    @Flag(help: "Use PostgreSQL instead of SQLite.")
    var postgres = false

    @Option(help: "The port of a simulator; without it, the batch is only stored.")
    var port: Int?
    @Option var caFile: String?
    @Option var pushes = 1_000_000

    func run() async throws {
        var bench = try BenchQueue(postgres: self.postgres)
        defer { bench.remove() }
        bench.setServer(port: self.port ?? 9, certificateAuthority: self.caFile)
        let queue = try await bench.open()
        let (running, bound) = try await bench.start(queue)
        let url = "http://127.0.0.1:\(bound)/v1"
        let client = TestHTTPClient()
        let body = self.body()

        let before = ProcessFigures.residentMiB
        let peak = Mutex(before)
        let watching = Task {
            while !Task.isCancelled {
                let now = ProcessFigures.residentMiB
                peak.withLock { $0 = max($0, now) }
                try await Task.sleep(for: .milliseconds(20))
            }
        }
        let start = ContinuousClock.now
        let response = try await client.send(
            .POST,
            "\(url)/batches",
            headers: ["content-type": "application/x-ndjson"],
            body: body,
            timeout: .seconds(600)
        )
        guard response.status == 202 else {
            print(response.text)
            throw ExitCode.failure
        }
        let seconds = start.duration(to: .now) / .seconds(1)
        watching.cancel()
        print(
            """
            batch: \(self.pushes) devices accepted in \(Self.text(seconds)) s, \(Int(Double(self.pushes) / seconds)) a \
            second; \(peak.withLock { $0 } - before) MiB more memory than before
            """
        )
        if self.port != nil {
            try await self.drain(queue, client, url)
        }
        running.cancel()
        _ = await running.result
    }

    /// Waits for the batch, and sends a single push every 50 ms meanwhile.
    private func drain(_ queue: any PushQueue, _ client: TestHTTPClient, _ url: String) async throws {
        let start = ContinuousClock.now
        let times = Times()
        try await withThrowingDiscardingTaskGroup { group in
            var number = 0
            while try await queue.counts().routes.contains(where: { $0.route.batch != nil }) {
                number += 1
                let single = number
                group.addTask { times.add(try await Self.single(single, client, url)) }
                try await Task.sleep(for: .milliseconds(50))
            }
        }
        let seconds = start.duration(to: .now) / .seconds(1)
        let sorted = times.sorted
        let (half, most) = (sorted[sorted.count / 2], sorted[min(sorted.count * 99 / 100, sorted.count - 1)])
        print(
            """
            batch: sent at \(Int(Double(self.pushes) / seconds)) a second; \(sorted.count) single pushes beside it had their \
            outcomes in \(Self.text(half)) ms (median), \(Self.text(most)) ms (99 %)
            """
        )
    }

    private final class Times: Sendable {
        private let values = Mutex([Double]())

        func add(_ value: Double) { self.values.withLock { $0.append(value) } }

        var sorted: [Double] { self.values.withLock { $0.sorted() } }
    }

    /// Submits a push and waits for its outcome.
    ///
    /// - Returns: the time, in milliseconds.
    private static func single(_ number: Int, _ client: TestHTTPClient, _ url: String) async throws -> Double {
        let start = ContinuousClock.now
        let id = UUID().uuidString.lowercased()
        let push = """
            {"app":"fern","token":"\(BenchQueue.token(number))","headers":{"apns-push-type":"alert",\
            "apns-id":"\(id)"},"payload":{"aps":{"alert":"single"}}}
            """
        let response = try await client.send(
            .POST,
            "\(url)/pushes",
            headers: ["content-type": "application/json"],
            body: Array(push.utf8)
        )
        guard response.status == 202 else { throw ExitCode.failure }
        while true {
            let status = try await client.send(.GET, "\(url)/pushes/\(id)")
            if status.text.contains("\"settled\"") { return start.duration(to: .now) / .milliseconds(1) }
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    /// The body of the request. It is made before the measurement begins.
    private func body() -> [UInt8] {
        let text = String(repeating: "x", count: 230)
        var body = Array(
            """
            {"app":"fern","headers":{"apns-push-type":"alert"},\
            "payload":{"aps":{"alert":{"title":"Hi {{name}}","body":"\(text)"}}}}\n
            """.utf8
        )
        for number in 0..<self.pushes {
            body += #"{"token":"\#(BenchQueue.token(number))","values":{"name":"\#(number)"}}\#n"#.utf8
        }
        return body
    }

    private static func text(_ number: Double) -> String { number.formatted(.number.precision(.fractionLength(1))) }
}
