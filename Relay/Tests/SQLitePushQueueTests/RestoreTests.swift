import APNSModel
import Foundation
import PushQueue
import PushQueueConformance
import SQLitePushQueue
import Testing

/// A file that was replaced by an older copy of itself.
@Suite struct RestoreTests {
    private let fixture: SQLiteFixture

    init() throws { self.fixture = try SQLiteFixture() }

    private func options(seen: QueueProgress? = nil, isRestored: Bool = false) -> SQLitePushQueue.Options {
        var options = SQLitePushQueue.Options()
        options.seen = seen
        options.isRestored = isRestored
        return options
    }

    /// The state of due pushes in the copy.
    static let states = [PushStatus.State.queued, .claimed, .written]

    /// Stores three pushes, copies the file, lets the first two be accepted, closes the queue and puts the copy back.
    ///
    /// - Parameter state: the state of the first two in the copy.
    /// - Returns: the pushes, the cursor of a reader of all outcomes, and the progress at the end.
    private func restored(
        _ state: PushStatus.State
    ) async throws -> (pushes: [NewPush], cursor: FeedCursor?, seen: QueueProgress?) {
        let queue = try await self.fixture.openQueue()
        var resent = try self.fixture.push()
        resent.resendsUnknown = true
        var later = try self.fixture.push()
        later.notBefore = later.notBefore.advanced(by: .seconds(600))
        let pushes = [try self.fixture.push(), resent, later]
        _ = try await queue.enqueue(pushes, isPartial: false)
        let claims = state == .queued ? [] : try await queue.claim(10)
        if state == .written { _ = try await queue.markWritten(claims, lease: .seconds(60)) }
        let copy = self.fixture.file + "-copy"
        try SQLiteFixture.copy(self.fixture.file, to: copy)
        _ = try await queue.settle(claims.map { Settlement(claim: $0, outcome: .accepted(Receipt(apnsID: $0.id))) })
        try await queue.settleAll()
        let page = try await queue.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 10)
        #expect(page.entries.count == 2)
        await queue.close()
        for suffix in ["", "-wal", "-shm"] {
            let path = self.fixture.file + suffix
            if FileManager.default.fileExists(atPath: path) { try FileManager.default.removeItem(atPath: path) }
            if FileManager.default.fileExists(atPath: copy + suffix) {
                try FileManager.default.moveItem(atPath: copy + suffix, toPath: path)
            }
        }
        return (pushes, page.cursor, queue.progress)
    }

    private func check(_ queue: SQLitePushQueue, _ pushes: [NewPush], _ cursor: FeedCursor?) async throws {
        #expect(queue.restore == QueueRestore(parked: [SQLiteFixture.route.destination: 1]))
        // No claim of the file has ended in another way.
        #expect(queue.expiredAtOpen == ExpiredLeases())
        let parked = try await queue.parked(after: nil, limit: 10)
        #expect(parked.map(\.id) == [pushes[0].id])
        #expect(parked.first?.outcome?.certainty == .unknown)
        let claimed = try await queue.claim(SQLiteFixture.route, limit: 10, lease: .seconds(60))
        #expect(claimed.map(\.claim.id) == [pushes[1].id])
        #expect(claimed.first?.mayBeProcessed == true)
        #expect(try await queue.status(of: pushes[2].id)?.state == .queued)
        // The reader learns about it, and new outcomes have new positions.
        _ = try await queue.dropParked([pushes[0].id])
        let page = try await queue.outcomes(after: cursor, apps: nil, kind: .outcomes, limit: 10)
        #expect(page.gap?.reason == .restored)
        #expect(page.entries.map(\.push.id) == [pushes[0].id])
        #expect(page.entries.first?.push.outcome?.certainty == .unknown)
        #expect(try #require(page.entries.first).cursor.position > 1_000_000)
    }

    @Test(
        "A file that has come less far than its relay has seen was restored: what was due or in flight is parked",
        arguments: states
    )
    func noticed(_ state: PushStatus.State) async throws {
        let (pushes, cursor, seen) = try await self.restored(state)
        let queue = try await self.fixture.openQueue(self.options(seen: seen))
        try await self.check(queue, pushes, cursor)
        let progress = queue.progress
        await queue.close()
        // The restore was noticed once.
        let again = try await self.fixture.openQueue(self.options(seen: progress))
        #expect(again.restore == nil)
        await again.close()
    }

    @Test("When the same copy is put back a second time, no position of the feed comes back")
    func twice() async throws {
        var queue = try await self.fixture.openQueue()
        let push = try self.fixture.push()
        _ = try await queue.enqueue([push], isPartial: false)
        let copy = self.fixture.file + "-copy"
        await queue.close()
        try FileManager.default.copyItem(atPath: self.fixture.file, toPath: copy)
        queue = try await self.fixture.openQueue(self.options(seen: queue.progress))
        try await queue.settleAll()
        var cursors: [FeedCursor] = []
        for round in 0...2 {
            if round > 0 {
                #expect(queue.restore?.parkedCount == 1)
                #expect(try await queue.dropParked([push.id]) == [true])
            }
            let page = try await queue.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 10)
            cursors.append(try #require(page.entries.last).cursor)
            await queue.close()
            for suffix in ["", "-wal", "-shm"] {
                try? FileManager.default.removeItem(atPath: self.fixture.file + suffix)
            }
            try FileManager.default.copyItem(atPath: copy, toPath: self.fixture.file)
            queue = try await self.fixture.openQueue(self.options(seen: queue.progress))
        }
        #expect(cursors[0].position + 1_000_000 < cursors[1].position)
        #expect(cursors[1].position + 1_000_000 < cursors[2].position)
        await queue.close()
    }

    @Test("A copy from an earlier start is noticed even if no outcome was stored since")
    func earlierStart() async throws {
        let first = try await self.fixture.openQueue()
        _ = try await first.enqueue(try self.fixture.pushes(3), isPartial: false)
        let copy = self.fixture.file + "-copy"
        await first.close()
        try FileManager.default.copyItem(atPath: self.fixture.file, toPath: copy)
        let second = try await self.fixture.openQueue(self.options(seen: first.progress))
        #expect(second.restore == nil)
        await second.close()
        try FileManager.default.removeItem(atPath: self.fixture.file)
        try FileManager.default.moveItem(atPath: copy, toPath: self.fixture.file)
        let third = try await self.fixture.openQueue(self.options(seen: second.progress))
        #expect(third.restore?.parkedCount == 3)
        await third.close()
    }

    @Test("An operator can say that a file was restored, if nothing else knows it", arguments: states)
    func declared(_ state: PushStatus.State) async throws {
        let (pushes, cursor, _) = try await self.restored(state)
        let queue = try await self.fixture.openQueue(self.options(isRestored: true))
        try await self.check(queue, pushes, cursor)
        await queue.close()
    }

    @Test("The progress of another queue says nothing, and neither does a kill")
    func otherQueue() async throws {
        let queue = try await self.fixture.openQueue()
        _ = try await queue.enqueue(try self.fixture.pushes(3), isPartial: false)
        let claims = try await queue.claim(2)
        _ = try await queue.markWritten(claims, lease: .seconds(60))
        let seen = queue.progress
        await queue.close()
        let again = try await self.fixture.openQueue(self.options(seen: seen))
        #expect(again.restore == nil)
        await again.close()
        let other = try await SQLiteFixture().openQueue(self.options(seen: again.progress))
        #expect(other.restore == nil)
        await other.close()
    }
}
