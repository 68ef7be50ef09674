import APNSModel
import APNSRelay
import ArgumentParser
import Foundation
import Logging
import PostgresPushQueue
import PostgresTestServer
import PushQueue

/// `relay-bench queue`: the engines without a relay.
struct Queue: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Measures a queue alone: storing, claiming with marks and outcomes, and single calls.",
        discussion: """
            Without --postgres, the queue is a SQLite file. With it, the queue is in a database server of this \
            command, and each of --relays engines stores and sends its share, all in this process.
            """
    )

    @Flag(help: "Measure PostgreSQL instead of SQLite.")
    var postgres = false

    @Option(help: "How many engines share the database.")
    var relays = 1

    @Option(help: "How many pushes.")
    var pushes = 200_000

    @Option(help: "How many pushes one call stores, claims, marks or settles.")
    var batch = 500

    @Option(help: "How often to store and send the pushes, as long as the storage is the same.")
    var rounds = 1

    @Option(help: "A line for the server's postgresql.conf. May be given several times.")
    var serverSetting: [String] = []

    private static let route = Route(app: "fern", environment: "production", lane: .bulk, caller: "bench")

    func run() async throws {
        let bench = try BenchQueue(postgres: self.postgres, serverSettings: self.serverSetting)
        defer { bench.remove() }
        var queues: [any PushQueue] = []
        for _ in 0..<(self.postgres ? self.relays : 1) { queues.append(try await bench.open()) }
        let share = self.pushes / queues.count
        for round in 1...self.rounds {
            try await self.measure("stored", queues, bench.server, share) { try await self.store($0, share) }
            try await self.measure("claimed, marked, settled", queues, bench.server, share) { try await self.send($0) }
            if self.rounds > 1 {
                let keepsNone = Retention(outcomes: .zero, idempotencyKeys: .zero)
                while try await queues[0].prune(keepsNone, limit: 5_000) == 5_000 {}
                print("round \(round): \(bench.bytes / 1_048_576) MiB")
            }
        }
        try await self.measureCalls(queues[0])
        for queue in queues { await queue.close() }
    }

    private func measure(
        _ name: String,
        _ queues: [any PushQueue],
        _ server: PostgresServer?,
        _ share: Int,
        _ body: @escaping @Sendable (any PushQueue) async throws -> Void
    ) async throws {
        let start = ContinuousClock.now
        let before = ProcessFigures.cpuSeconds
        let serverBefore = server.map { ProcessFigures.cpuSeconds(of: $0) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            // As a relay does.
            let tending = Task {
                while !Task.isCancelled {
                    for queue in queues { _ = try await queue.settleOverdue(limit: 1_000) }
                    try await Task.sleep(for: .seconds(1))
                }
            }
            for queue in queues { group.addTask { try await body(queue) } }
            try await group.waitForAll()
            tending.cancel()
        }
        let seconds = start.duration(to: .now) / .seconds(1)
        let pushes = Double(share * queues.count)
        let cpu = (ProcessFigures.cpuSeconds - before) / pushes * 1e6
        var line = "\(name): \(Self.text(pushes / seconds, 0)) pushes/s, \(Self.text(cpu, 1)) us of CPU a push"
        if let server, let serverBefore {
            let cpu = (ProcessFigures.cpuSeconds(of: server) - serverBefore) / pushes * 1e6
            line += ", \(Self.text(cpu, 1)) in the database"
        }
        print(line)
    }

    private static func text(_ value: Double, _ digits: Int) -> String { String(format: "%.\(digits)f", value) }

    private func store(_ queue: any PushQueue, _ count: Int) async throws {
        var generator = SystemRandomNumberGenerator()
        let payload = Array(#"{"aps":{"alert":"\#(String(repeating: "x", count: 200))"}}"#.utf8)
        let push = try PreparedPush(topic: "com.grasscove.Fern", pushType: .alert, payload: payload)
        let token = try DeviceToken(String(repeating: "0f", count: 32))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for first in stride(from: 0, to: count, by: self.batch) {
                let now = SystemQueueClock().now
                let pushes = (first..<min(first + self.batch, count)).map { _ in
                    NewPush(
                        id: .random(using: &generator),
                        route: Self.route,
                        token: token,
                        push: push,
                        notBefore: now,
                        deadline: now.advanced(by: .seconds(3_600))
                    )
                }
                group.addTask { _ = try await queue.enqueue(pushes, isPartial: false) }
                if first / self.batch >= 4 { try await group.next() }
            }
            try await group.waitForAll()
        }
    }

    private func send(_ queue: any PushQueue) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    while true {
                        let claims = try await queue.claim(Self.route, limit: self.batch, lease: .seconds(60))
                            .map(\.claim)
                        guard !claims.isEmpty else { return }
                        let marks = try await queue.markWritten(claims, lease: .seconds(60))
                        _ = try await queue.settle(
                            zip(claims, marks).filter(\.1).map { claim, _ in
                                Settlement(claim: claim, outcome: .accepted(Receipt(apnsID: claim.id)))
                            }
                        )
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    private func measureCalls(_ queue: any PushQueue) async throws {
        let start = ContinuousClock.now
        for number in 0..<1_000 { try await queue.setValue([UInt8(number % 256)], forKey: "bench") }
        print("one call after another: \(Self.text(start.duration(to: .now) / .milliseconds(1_000), 2)) ms each")
    }
}
