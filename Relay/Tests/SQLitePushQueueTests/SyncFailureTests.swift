import Foundation
import PushQueue
import SQLitePushQueue
import Testing

/// A disk whose `fsync` fails. The next call may succeed although the data of the failed one is lost (Linux).
@Suite struct SyncFailureTests {
    @Test("A commit that cannot be synchronised is undecided, nothing more is stored, and the process must end")
    func commit() async throws {
        #expect(FaultyDisk.isInstalled)
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        _ = try await queue.enqueue(fixture.pushes(1), isPartial: false)
        FaultyDisk.failSync(of: fixture.file + "-wal")
        // Calls at the same time may share a transaction.
        await withTaskGroup { tasks in
            for _ in 0..<8 {
                tasks.addTask {
                    let error = await failure { try await queue.enqueue(fixture.pushes(1), isPartial: false) }
                    #expect([.undecided, .unusable].contains(error?.code))
                }
            }
        }
        FaultyDisk.repair(fixture.file + "-wal")
        let next = await failure { try await queue.enqueue(fixture.pushes(1), isPartial: false) }
        #expect(next?.code == .unusable)
        #expect(next?.message.contains("fsync") == true)
        let reason = await queue.waitForFailure()
        #expect(reason?.code == .unusable && reason?.message.contains("start the relay again") == true)
        await queue.close()
    }

    @Test("A copy of the log into the database that cannot be synchronised ends the queue, too")
    func checkpoint() async throws {
        #expect(FaultyDisk.isInstalled)
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        FaultyDisk.failSync(of: fixture.file)
        var error: QueueError?
        // The log is copied at 32 MiB.
        for _ in 0..<100 where error == nil {
            let pushes = try (0..<10).map { _ in try fixture.push(payloadSize: 100_000) }
            error = await failure { try await queue.enqueue(pushes, isPartial: false) }
        }
        FaultyDisk.repair(fixture.file)
        #expect(error?.code == .unusable)
        let reason = await queue.waitForFailure()
        #expect(reason?.code == .unusable)
        await queue.close()
    }

    @Test("What was stored before is there after a restart")
    func restart() async throws {
        #expect(FaultyDisk.isInstalled)
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        let pushes = try fixture.pushes(3)
        _ = try await queue.enqueue(pushes, isPartial: false)
        FaultyDisk.failSync(of: fixture.file + "-wal")
        _ = await failure { try await queue.enqueue(fixture.pushes(1), isPartial: false) }
        FaultyDisk.repair(fixture.file + "-wal")
        await queue.close()
        let again = try await fixture.openQueue()
        for push in pushes {
            let status = try await again.status(of: push.id)
            #expect(status?.state == .queued)
        }
        await again.close()
    }

    @Test("A queue that is closed has not failed")
    func closed() async throws {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        await queue.close()
        let reason = await queue.waitForFailure()
        #expect(reason == nil)
    }
}
