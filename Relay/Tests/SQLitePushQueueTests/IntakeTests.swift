import APNSModel
import Foundation
import PushQueue
import Synchronization
import Testing

@testable import SQLitePushQueue

/// Calls that store many pushes, beside calls that concern pushes in flight.
@Suite struct IntakeTests {
    @Test("Marks and outcomes are stored between large calls", .timeLimit(.minutes(5)))
    func largeCall() async throws {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        _ = try await queue.enqueue(fixture.pushes(200), isPartial: false)
        let calls = try (0..<40).map { _ in try fixture.pushes(1_000) }
        let stored = StoredCalls()
        let rounds = try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                await withThrowingTaskGroup(of: Void.self) { group in
                    for pushes in calls {
                        group.addTask { _ = try await queue.enqueue(pushes, isPartial: false) }
                    }
                }
                stored.add()
            }
            // A large call has begun.
            while queue.runningCalls == 0 { await Task.yield() }
            var rounds = 0
            while stored.count == 0, rounds < 200 {
                let claims = try await queue.claim(1)
                let marks = try await queue.markWritten(claims, lease: .seconds(60))
                #expect(marks == [true])
                let settlements = claims.map { Settlement(claim: $0, outcome: .accepted(Receipt(apnsID: $0.id))) }
                let results = try await queue.settle(settlements)
                #expect(results == [.settled])
                rounds += 1
            }
            try await group.waitForAll()
            return rounds
        }
        #expect(rounds >= 3, "claims, marks and outcomes waited for the large calls")
        let counts = try await queue.counts()
        #expect(counts.queued == 40_200 - rounds)
        await queue.close()
    }

    @Test("A mark does not wait behind calls that store pushes", .timeLimit(.minutes(5)))
    func manyCalls() async throws {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        _ = try await queue.enqueue(fixture.pushes(1), isPartial: false)
        let claims = try await queue.claim(1)
        let calls = try (0..<40).map { _ in try fixture.pushes(100) }
        let (ends, end) = AsyncStream.makeStream(of: String.self)
        // All of them are added before the next transaction begins.
        _ = try await queue.write { _ in
            for pushes in calls {
                queue.group.add(
                    GroupCommit.Job(
                        isDurable: true,
                        isIntake: true,
                        run: { transaction in
                            _ = try transaction.enqueue(
                                pushes,
                                isPartial: false,
                                IntakeLimits(capacity: nil, disk: QueueDisk(file: fixture.file, maxPageCount: nil))
                            )
                            return { end.yield("stored") }
                        },
                        fail: { end.yield("\($0)") }
                    )
                )
            }
            queue.group.add(
                GroupCommit.Job(
                    isDurable: true,
                    run: { transaction in
                        let marks = try transaction.markWritten(claims, lease: .seconds(60))
                        return { end.yield(marks == [true] ? "marked" : "not marked") }
                    },
                    fail: { end.yield("\($0)") }
                )
            )
        }
        var order: [String] = []
        for await event in ends.prefix(calls.count + 1) { order.append(event) }
        #expect(order == ["marked"] + calls.map { _ in "stored" })
        await queue.close()
    }

    @Test("A large call that does not fit on the disk stores nothing", .timeLimit(.minutes(5)))
    func fullDisk() async throws {
        let fixture = try SQLiteFixture()
        var options = SQLitePushQueue.Options()
        options.maxPageCount = 700
        let queue = try await fixture.openQueue(options)
        let pushes = try (0..<8_000).map { try fixture.push(key: "order-\($0)") }
        for _ in 0..<2 {
            let error = await failure { try await queue.enqueue(pushes, isPartial: false) }
            #expect(error?.code == .unavailable)
        }
        let counts = try await queue.counts()
        #expect(counts.unsettled == 0)
        let status = try await queue.status(of: pushes[0].id)
        #expect(status == nil)
        let cancelled = try await queue.cancel(pushes[0].id)
        #expect(cancelled == .notFound)
        // Their keys, their ids and the space are free again.
        let results = try await queue.enqueue(Array(pushes.prefix(1_200)), isPartial: false)
        #expect(results.allSatisfy { $0 == .queued })
        await queue.close()
        let again = try await fixture.openQueue()
        let claims = try await again.claim(2_000)
        #expect(claims.map(\.id) == pushes.prefix(1_200).map(\.id))
        await again.close()
    }

    @Test("Free pages in the file are no room for its log") func freePages() async throws {
        let fixture = try SQLiteFixture()
        let first = try await fixture.openQueue()
        _ = try await first.enqueue(try (0..<1_500).map { _ in try fixture.push(payloadSize: 4_000) }, isPartial: false)
        try await first.settleAll()
        // This copies the log into the file.
        await first.close()
        let queue = try await fixture.openQueue()
        let disk = QueueDisk(file: fixture.file, maxPageCount: nil)
        let rooms = try await queue.read { db in
            try [1, 2].map { free in try disk.room(db) { _ in (free << 20, 16 << 20) } }
        }
        #expect(rooms.allSatisfy { $0.free >= $0.reserve })
        #expect(rooms.map(\.available) == [1 << 20, 2 << 20])
        #expect(rooms.map { $0.fits() } == [false, true])
        await queue.close()
    }

    private final class StoredCalls: Sendable {
        private let state = Mutex(0)
        var count: Int { self.state.withLock { $0 } }
        func add() { self.state.withLock { $0 += 1 } }
    }
}
