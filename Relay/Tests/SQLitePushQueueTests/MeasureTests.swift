import APNSModel
import Foundation
import PushQueue
import SQLitePushQueue
import Testing

/// Prints figures; asserts nothing about time.
///
/// `MEASURE=1 swift test -c release --filter MeasureTests`; `MEASURE_PUSHES=n` sets the size of the large queue.
@Suite(.serialized, .enabled(if: ProcessInfo.processInfo.environment["MEASURE"] == "1"))
struct MeasureTests {
    private let fixture: SQLiteFixture
    private let prepared: PreparedPush
    private let token: DeviceToken

    init() throws {
        self.fixture = try SQLiteFixture()
        self.token = try DeviceToken(String(repeating: "ab", count: 32))
        self.prepared = try PreparedPush(
            topic: "com.example.fern",
            pushType: .alert,
            payload: Array("{\"aps\":{\"alert\":\"\(String(repeating: "x", count: 280))\"}}".utf8),
            priority: .immediate
        )
    }

    /// The two kinds of ids.
    enum IDs: String, CaseIterable {
        case random
        case timeOrdered = "time-ordered"
    }

    @Test("The rate of enqueue by batch and callers", arguments: IDs.allCases)
    func enqueue(_ ids: IDs) async throws {
        for (batch, callers, total) in [
            (1, 1, 5_000), (10, 1, 20_000), (100, 1, 100_000), (1_000, 1, 200_000), (1, 64, 51_200), (10, 64, 192_000),
            (100, 64, 256_000), (1_000, 64, 512_000),
        ] {
            let fixture = try SQLiteFixture()
            let queue = try await fixture.openQueue()
            let before = queue.commitCount
            let rate = try await self.enqueue(queue, ids, batch: batch, callers: callers, total: total)
            let commits = queue.commitCount - before
            print("enqueue, \(ids.rawValue) ids, batch \(batch), \(callers) callers: \(rate)/s, \(commits) commits")
            await queue.close()
        }
    }

    @Test("The rate of the whole cycle", arguments: IDs.allCases)
    func cycle(_ ids: IDs) async throws {
        let queue = try await self.fixture.openQueue()
        _ = try await self.enqueue(queue, ids, batch: 1_000, callers: 4, total: 320_000)
        for workers in [1, 4] {
            let rate = try await self.cycle(queue, workers: workers, total: 100_000)
            print("claim(500), markWritten, settle, \(ids.rawValue) ids, \(workers) workers: \(rate)/s")
        }
        await queue.close()
    }

    @Test("A large queue", arguments: IDs.allCases)
    func large(_ ids: IDs) async throws {
        let total = ProcessInfo.processInfo.environment["MEASURE_PUSHES"].flatMap(Int.init) ?? 5_000_000
        var queue = try await self.fixture.openQueue()
        for part in 1...5 {
            let rate = try await self.enqueue(queue, ids, batch: 1_000, callers: 4, total: total / 5)
            print("\(ids.rawValue) ids, \(total / 5 * part) queued: enqueue \(rate)/s, \(self.residentMiB) MiB")
        }
        await queue.close()
        let size = try FileManager.default.attributesOfItem(atPath: self.fixture.file)[.size] as? NSNumber
        let begin = ContinuousClock.now
        queue = try await self.fixture.openQueue()
        let counts = try await queue.counts()
        print("\(size ?? 0) bytes, opened in \(begin.duration(to: .now)): \(counts.queued) queued")
        let rate = try await self.cycle(queue, workers: 1, total: min(100_000, total))
        print("the cycle in this queue: \(rate)/s, \(self.residentMiB) MiB")
        await queue.close()
    }

    private func enqueue(
        _ queue: SQLitePushQueue,
        _ ids: IDs,
        batch: Int,
        callers: Int,
        total: Int
    ) async throws -> Int {
        let begin = ContinuousClock.now
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<callers {
                group.addTask {
                    for _ in 0..<max(1, total / callers / batch) {
                        _ = try await queue.enqueue(self.pushes(batch, ids), isPartial: false)
                    }
                }
            }
            try await group.waitForAll()
        }
        return Int(Double(total) / (begin.duration(to: .now) / .seconds(1)))
    }

    private func pushes(_ count: Int, _ ids: IDs) -> [NewPush] {
        var generator = SystemRandomNumberGenerator()
        let now = self.fixture.now
        let time = UInt64(clamping: SystemQueueClock().now.millisecondsSince1970)
        return (0..<count).map { _ in
            NewPush(
                id: ids == .random
                    ? APNSID.random(using: &generator)
                    // As the relay makes ids: the time, and then random bits.
                    : APNSID(high: time << 16 | 0x7000, low: 1 << 63 | generator.next() >> 2),
                route: SQLiteFixture.route,
                token: self.token,
                push: self.prepared,
                notBefore: now,
                deadline: now.advanced(by: .seconds(86_400))
            )
        }
    }

    private func cycle(_ queue: SQLitePushQueue, workers: Int, total: Int) async throws -> Int {
        let begin = ContinuousClock.now
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<workers {
                group.addTask {
                    var done = 0
                    while done < total / workers {
                        let claims = try await queue.claim(500)
                        guard !claims.isEmpty else { return }
                        _ = try await queue.markWritten(claims, lease: .seconds(60))
                        let settlements = claims.map {
                            Settlement(claim: $0, outcome: .accepted(Receipt(apnsID: $0.id)))
                        }
                        _ = try await queue.settle(settlements)
                        done += claims.count
                    }
                }
            }
            try await group.waitForAll()
        }
        return Int(Double(total) / (begin.duration(to: .now) / .seconds(1)))
    }

    private var residentMiB: Int {
        let lines = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8))?.split(separator: "\n") ?? []
        let line = lines.first { $0.hasPrefix("VmRSS:") }
        return (line?.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0) / 1_024
    }
}
