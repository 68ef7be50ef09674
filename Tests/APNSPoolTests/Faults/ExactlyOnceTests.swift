import Foundation
import HTTP2Wire
import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool

/// Sends thousands of pushes to a server that fails at random: each push has one outcome, and the server's
/// record agrees with it.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct ExactlyOnceTests {
    /// The outcomes of all pushes, by `apns-id` (or by device token if the id is unknown).
    private final class Book: Sendable {
        let outcomes = Mutex<[String: [PushOutcome]]>([:])

        func write(_ key: String, _ outcome: PushOutcome) {
            self.outcomes.withLock { $0[key, default: []].append(outcome) }
        }
    }

    @Test(arguments: TestScale.seeds(fixed: TestScale.size(0, thorough: 1)))
    func eachPushHasOneOutcomeThatTheServerConfirms(_ seed: UInt64) async throws {
        let random = Mutex(SeededRandom(seed: seed))
        let server = try await ScriptedServer.start(limit: 50) { push in
            let dice = random.withLock { Int.random(in: 0..<1000, using: &$0) }
            return switch dice {
            case 0..<20: [.reset(.refusedStream)]
            case 20..<30: [.reset(.internalError)]
            case 30..<34: [.goAway(includingThis: false)]
            case 34..<38: [.respond(200), .goAway(includingThis: true)]
            case 38..<41: [.drop]
            case 41..<43: [.close]
            case 43..<60: [.respond(503, reason: "Shutdown")]
            case 60..<70: [.respond(500, reason: "InternalServerError")]
            case 70..<90: [.hold]
            case 90..<110: [.respond(410, reason: "Unregistered")]
            case 110..<115: [.limit(10), .respond(200)]
            case 115..<120: [.limit(50), .respond(200)]
            default: [.respond(200)]
            }
        }
        var configuration = APNSClientConfiguration.local(server)
        configuration.pool.size = 2
        configuration.pool.maxOverflow = 1
        configuration.timeouts.response = .seconds(1)
        configuration.timeouts.deadline = Patience.limit
        let client = try APNSClient(configuration: configuration)
        let run = Task { try await client.run() }
        let book = Book()
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<20 {
                group.addTask { await self.sendSingles(50, worker, seed, client, book) }
            }
            for call in 0..<4 {
                group.addTask { await self.sendBulk(250, call, client, book) }
            }
        }
        #expect(await client.status.pool.leased == 0, "seed \(seed)")
        #expect(client.runtime.lifecycle.pushesInFlight == 0, "seed \(seed)")
        #expect(await client.status.restarts == 0, "seed \(seed)")
        run.cancel()
        try await run.value
        await server.wait { $0.openConnections == 0 }
        compare(book, server.record, seed)
        await server.stop()
    }

    private func sendSingles(
        _ count: Int,
        _ worker: Int,
        _ seed: UInt64,
        _ client: APNSClient,
        _ book: Book
    ) async {
        var random = SeededRandom(seed: seed &* 1000 &+ UInt64(worker))
        for number in 0..<count {
            let id = APNSID.random(using: &random)
            let isShort = Int.random(in: 0..<10, using: &random) == 0
            let deadline = isShort ? Duration.milliseconds(Int64.random(in: 0...20, using: &random)) : nil
            let push = Task {
                await client.deliver(
                    samplePush(),
                    to: DeviceToken.sample(worker * 1000 + number),
                    options: DeliveryOptions(deadline: deadline, apnsID: id)
                )
            }
            if Int.random(in: 0..<10, using: &random) == 0 {
                for _ in 0..<Int.random(in: 0..<50, using: &random) { await Task.yield() }
                push.cancel()
            }
            book.write(id.description, await push.value)
        }
    }

    private func sendBulk(_ count: Int, _ call: Int, _ client: APNSClient, _ book: Book) async {
        let rows = (0..<count).map { 1_000_000 + call * 1000 + $0 }
        let options = BulkOptions(maxInFlight: 40)
        for await delivery in client.deliveries(
            of: samplePush(),
            to: rows,
            token: { DeviceToken.sample($0) },
            options: options
        ) {
            book.write(DeviceToken.sample(delivery.element).hexadecimal, delivery.outcome)
        }
    }

    private func compare(_ book: Book, _ record: ScriptedServer.Record, _ seed: UInt64) {
        let outcomes = book.outcomes.withLock { $0 }
        #expect(outcomes.count == 2000, "seed \(seed)")
        var idsByToken: [String: Set<String>] = [:]
        for push in record.pushes { idsByToken[push.token, default: []].insert(push.id) }
        var certainties: [Certainty: Int] = [:]
        for (key, all) in outcomes {
            #expect(all.count == 1, "seed \(seed): \(key)")
            guard let outcome = all.first else { continue }
            certainties[outcome.certainty, default: 0] += 1
            let ids = idsByToken[key] ?? [key]
            #expect(ids.count == 1, "seed \(seed): \(key) had several ids")
            let id = ids.first ?? key
            let isAccepted = record.accepted.contains(id)
            switch outcome.certainty {
            case .accepted: #expect(isAccepted && record.count(id) == 1, "seed \(seed): \(id) \(outcome)")
            case .notSent, .notProcessed, .rejected: #expect(record.count(id) == 0, "seed \(seed): \(id) \(outcome)")
            case .unknown: #expect(record.count(id) <= 1, "seed \(seed): \(id) \(outcome)")
            }
        }
        #expect(record.processed.values.allSatisfy { $0 == 1 }, "seed \(seed)")
        #expect(certainties[.accepted, default: 0] > 500, "seed \(seed): \(certainties)")
        print(
            "exactly once: seed \(seed), \(record.pushes.count) requests, \(record.connections) connections, \(certainties)"
        )
    }

    /// The kernel reports no connection of this process to the server's port.
    @Test func noSocketStaysOpenAfterTheClientEnds() async throws {
        let server = try await ScriptedServer.start()
        try await withAPNSClient(configuration: .local(server)) { client in
            #expect(await client.sendAll(samplePush(), to: (0..<100).map { DeviceToken.sample($0) }).accepted == 100)
        }
        await server.wait { $0.openConnections == 0 }
        try await until { try sockets(to: server.port) == 0 }
        await server.stop()
    }

    /// Established TCP connections with this remote port.
    private func sockets(to port: Int) throws -> Int {
        let hexadecimal = String(format: ":%04X", port)
        return try ["/proc/self/net/tcp", "/proc/self/net/tcp6"].reduce(0) { count, path in
            guard FileManager.default.fileExists(atPath: path) else { return count }
            let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").dropFirst()
            return count
                + lines.count { line in
                    let columns = line.split(separator: " ")
                    return columns.count > 3 && columns[2].hasSuffix(hexadecimal) && columns[3] == "01"
                }
        }
    }
}
