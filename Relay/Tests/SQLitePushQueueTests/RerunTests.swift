import APNSModel
import GRDB
import PushQueue
import Synchronization
import Testing

@testable import SQLitePushQueue

/// Jobs that run again one by one because their transaction has failed.
@Suite struct RerunTests {
    @Test("A transaction that fails behind the last parts of a large call loses none of the call's pushes")
    func largeCall() async throws {
        var isReached = false
        // The transaction of both calls may run out of time.
        for _ in 0..<50 where !isReached { isReached = try await self.rerun() }
        #expect(isReached, "the calls never shared a transaction")
    }

    /// - Returns: whether the failed transaction held the last parts of the large call.
    private func rerun() async throws -> Bool {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        let known = try fixture.push(key: "known")
        _ = try await queue.enqueue([known], isPartial: false)
        // Three parts. Duplicates cost little.
        let part = Int(StagedEnqueue.part)
        let large =
            try fixture.pushes(5) + Array(repeating: known, count: part * 2 - 6) + fixture.pushes(2)
        let small = try fixture.pushes(3)
        let failing = FailingOnce(queue.group)
        let (ends, end) = AsyncStream.makeStream(of: Result<[EnqueueResult], QueueError>.self)
        _ = try await queue.write { transaction in
            var call = StagedEnqueue(large, isPartial: false, capacity: nil)
            // Nothing to clean up, and the first part.
            for _ in 0..<2 { _ = try call.next(transaction) }
            // Makes the transaction durable, so that it may hold all parts of the large call.
            queue.group.add(GroupCommit.Job(isDurable: true, isIntake: true, run: { _ in .done {} }, fail: { _ in }))
            queue.group.add(.storing(call, file: "") { end.yield($0) })
            var job = GroupCommit.Job.storing(small, isPartial: false, capacity: nil, file: "") { end.yield($0) }
            job.run = { [run = job.run] transaction in
                try failing.failOnce(transaction)
                return try run(transaction)
            }
            queue.group.add(job)
        }
        var results: [[EnqueueResult]] = []
        for await result in ends.prefix(2) { results.append(try result.get()) }
        #expect(results.map(\.count) == [large.count, small.count])
        for push in large + small {
            let status = try await queue.status(of: push.id)
            #expect(status?.state == .queued)
        }
        let counts = try await queue.counts()
        #expect(counts.queued == 1 + 7 + 3)
        await queue.close()
        return failing.isReached
    }

    @Test("A large call whose first pushes another call has deleted stores nothing and says so")
    func interrupted() async throws {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        let pushes = try fixture.pushes(Int(StagedEnqueue.part) + 1)
        let error = await failure {
            try await queue.write { transaction in
                var call = StagedEnqueue(pushes, isPartial: false, capacity: nil)
                // Nothing to clean up, and the first part.
                for _ in 0..<2 { _ = try call.next(transaction) }
                while try !transaction.finishStaged(limit: StagedEnqueue.part) {}
                _ = try call.next(transaction)
            }
        }
        #expect(error?.code == .unavailable)
        let counts = try await queue.counts()
        #expect(counts.unsettled == 0)
        await queue.close()
    }

    /// Ends a transaction, as a full disk does.
    private final class FailingOnce: Sendable {
        private let group: GroupCommit
        private let state = Mutex((hasFailed: false, isReached: false))

        init(_ group: GroupCommit) {
            self.group = group
        }

        var isReached: Bool { self.state.withLock { $0.isReached } }

        func failOnce(_ transaction: WriteTransaction) throws {
            let isFirst = self.state.withLock { state in
                defer { state.hasFailed = true }
                guard !state.hasFailed else { return false }
                // The large call has ended in this transaction, and was incomplete before it.
                state.isReached = transaction.state.staged == nil && self.group.committed.staged?.isComplete == false
                return true
            }
            guard isFirst else { return }
            try transaction.db.execute(sql: "ROLLBACK")
            throw QueueError(code: .unavailable, message: "a test")
        }
    }
}
