import Foundation
import PushQueue
import SQLitePushQueue
import Testing

/// Which cursors of the feed a file accepts, and what a reader has missed.
@Suite struct FeedGenerationsTests {
    private static let generations = FeedGenerations([
        .init(id: 7, start: 1), .init(id: 8, start: 1), .init(id: 9, start: 10),
    ])

    private static func gap(_ position: Int64, _ id: UInt32, deleted: Int64 = 0) -> FeedGap? {
        Self.generations.gap(
            after: FeedCursor(position: position, generation: id),
            deleted: deleted,
            next: 21
        )
    }

    @Test("A cursor has the generation that has assigned its position")
    func owners() {
        let ids = [0, 1, 9, 10, 99].map { Self.generations.cursor(at: $0).generation }
        #expect(ids == [0, 8, 8, 9, 9])
    }

    @Test("Cursors of this history have no gap")
    func known() {
        for (position, id) in [(1, 8), (9, 8), (10, 9), (20, 9), (0, 0), (1, 0), (20, 0)] as [(Int64, UInt32)] {
            #expect(Self.gap(position, id) == nil)
        }
    }

    @Test("Cursors of another history are restored ones, and the reader goes on at the last common position")
    func restored() {
        #expect(
            Self.gap(12, 8)
                == FeedGap(reason: .restored, first: 10, last: 12, resume: FeedCursor(position: 9, generation: 8))
        )
        #expect(
            Self.gap(25, 9)
                == FeedGap(reason: .restored, first: 21, last: 25, resume: FeedCursor(position: 20, generation: 9))
        )
        #expect(
            Self.gap(5, 77) == FeedGap(reason: .restored, first: 1, last: 5, resume: FeedCursor(position: 0))
        )
        #expect(Self.gap(25, 0)?.reason == .restored)
        #expect(Self.gap(12, 8, deleted: 15)?.resume == FeedCursor(position: 15, generation: 9))
    }

    @Test("Cursors before deleted outcomes name them")
    func deleted() {
        let resume = FeedCursor(position: 6, generation: 8)
        #expect(Self.gap(2, 8, deleted: 6) == FeedGap(reason: .deleted, first: 3, last: 6, resume: resume))
        #expect(Self.gap(6, 8, deleted: 6) == nil)
        #expect(Self.gap(0, 0, deleted: 6) == nil)
    }

    @Test("Any numbers are taken")
    func extremes() {
        let wild = FeedGenerations([.init(id: 1, start: .min), .init(id: 2, start: .max)])
        for position in [Int64.min, -1, 0, 1, .max] {
            for id in [0, 1, 2, 3] as [UInt32] {
                let cursor = FeedCursor(position: position, generation: id)
                for other in [Int64.min, 0, .max] {
                    _ = wild.gap(after: cursor, deleted: other, next: other)
                    _ = FeedGenerations([]).gap(after: cursor, deleted: other, next: other)
                }
            }
        }
    }

    @Test("Above the limit, generations without outcomes are forgotten first")
    func kept() {
        let list = (0..<10).map { FeedGenerations.Generation(id: UInt32($0), start: $0 < 3 ? Int64($0) : 3) }
        #expect(FeedGenerations.kept(list, limit: 10) == list)
        #expect(FeedGenerations.kept(list, limit: 5).map(\.id) == [0, 1, 2, 9])
        #expect(FeedGenerations.kept(list, limit: 2).map(\.id) == [2, 9])
    }

    /// Settles pushes and returns the cursor of the last one.
    private static func settle(_ count: Int, _ fixture: SQLiteFixture, _ queue: SQLitePushQueue) async throws
        -> FeedCursor
    {
        _ = try await queue.enqueue(fixture.pushes(count), isPartial: false)
        try await queue.settleAll()
        return try #require(
            try await queue.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 1_000).cursor
        )
    }

    @Test("After a restore from a backup, readers learn that their cursors belong to another history")
    func restore() async throws {
        let fixture = try SQLiteFixture()
        let backup = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        let common = try await Self.settle(5, fixture, queue)
        try SQLiteFixture.copy(fixture.file, to: backup.file)
        let lost = try await Self.settle(5, fixture, queue)
        await queue.close()
        // The restored file has as many outcomes as the lost one had, so the position alone says nothing.
        let restored = try await backup.openQueue()
        _ = try await Self.settle(10, backup, restored)
        let gap = try await restored.outcomes(after: lost, apps: nil, kind: .outcomes, limit: 100)
        #expect(gap.gap == FeedGap(reason: .restored, first: 6, last: 10, resume: common))
        #expect(gap.entries.map(\.cursor.position) == Array(6...15))
        let page = try await restored.outcomes(after: common, apps: nil, kind: .outcomes, limit: 100)
        #expect(page.gap == nil && page.entries.count == 10)
        await restored.close()
    }

    @Test("Cursors stay valid, and the same, when the file is opened again")
    func reopened() async throws {
        let fixture = try SQLiteFixture()
        var all: [FeedCursor] = []
        for _ in 0..<3 {
            let queue = try await fixture.openQueue()
            _ = try await Self.settle(2, fixture, queue)
            let page = try await queue.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 100)
            #expect(page.entries.map(\.cursor).prefix(all.count).elementsEqual(all))
            all = page.entries.map(\.cursor)
            for cursor in all {
                let rest = try await queue.outcomes(after: cursor, apps: nil, kind: .outcomes, limit: 100)
                #expect(rest.gap == nil)
            }
            await queue.close()
        }
        #expect(Set(all.map(\.generation)).count == 3)
    }
}
