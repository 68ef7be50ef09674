import APNSModel
import Foundation
import GRDB
import PushQueue
import PushQueueConformance
import SQLitePushQueue
import Testing

/// Full disks, locks, groups and readers.
@Suite struct StorageTests {
    @Test("A full disk makes calls unavailable, and the queue continues when there is space again")
    func fullDisk() async throws {
        let fixture = try SQLiteFixture()
        var options = SQLitePushQueue.Options()
        options.maxPageCount = 200
        let queue = try await fixture.openQueue(options)
        var stored: [NewPush] = []
        var error: QueueError?
        while error == nil, stored.count < 10_000 {
            let push = try fixture.push(payloadSize: 3_000)
            error = await failure { try await queue.enqueue([push], isPartial: false) }
            if error == nil {
                stored.append(push)
            } else {
                let status = try await queue.status(of: push.id)
                #expect(status == nil, "a push that was not stored is known")
            }
        }
        #expect(error?.code == .unavailable)
        #expect(error?.message.contains("reserved for outcomes") == true, "\(String(describing: error))")
        #expect(stored.count > 50)
        var counts = try await queue.counts()
        #expect(counts.queued == stored.count)
        // Outcomes need little space, and give more back.
        try await queue.settleAll()
        for push in stored {
            let status = try await queue.status(of: push.id)
            #expect(status?.state == .settled)
        }
        let more = try (0..<10).map { _ in try fixture.push(payloadSize: 3_000) }
        let results = try await queue.enqueue(more, isPartial: false)
        #expect(results == more.map { _ in .queued })
        counts = try await queue.counts()
        #expect(counts.queued == 10)
        await queue.close()
    }

    @Test("A real disk that is full makes calls unavailable until there is space again")
    func fullFileSystem() async throws {
        let fixture = try SQLiteFixture()
        // Needs the right to mount; otherwise the test above has to do.
        guard try self.run("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", fixture.directory.path) else { return }
        defer { _ = try? self.run("umount", fixture.directory.path) }
        let queue = try await fixture.openQueue()
        _ = try await queue.enqueue(fixture.pushes(10), isPartial: false)
        let ballast = fixture.directory.appending(path: "ballast").path
        _ = try self.run("dd", "if=/dev/zero", "of=\(ballast)", "bs=4096")
        var error: QueueError?
        for _ in 0..<2_000 where error == nil {
            error = await failure {
                try await queue.enqueue((try? fixture.pushes(10)) ?? [], isPartial: false)
            }
        }
        #expect(error?.code == .unavailable, "\(String(describing: error))")
        let before = try await queue.counts().queued
        try FileManager.default.removeItem(atPath: ballast)
        let results = try await queue.enqueue(fixture.pushes(10), isPartial: false)
        #expect(results.count == 10)
        await queue.close()
        let again = try await fixture.openQueue()
        let counts = try await again.counts()
        #expect(counts.queued == before + 10)
        await again.close()
    }

    private func run(_ arguments: String...) throws -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = arguments
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.start()
        process.waitUntilExit()
        return process.terminationStatus == 0
    }

    @Test("A lock of another program makes writing calls unavailable, reading calls work, and then both")
    func lockedByOther() async throws {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        let push = try fixture.push()
        _ = try await queue.enqueue([push], isPartial: false)
        let other = try fixture.otherConnection()
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN EXCLUSIVE; DELETE FROM push") }
        let pushes = try fixture.pushes(3)
        async let blocked = failure { try await queue.enqueue(pushes, isPartial: false) }
        // Readers see the last commit, and do not wait for the writer, which is waiting.
        let status = try await queue.status(of: push.id)
        #expect(status?.state == .queued)
        let counts = try await queue.counts()
        #expect(counts.queued == 1)
        let routes = try await queue.queuedRoutes()
        #expect(routes.count == 1)
        let error = try #require(await blocked)
        #expect(error.code == .unavailable && error.message.contains("locked"))
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        try other.close()
        let results = try await queue.enqueue(pushes, isPartial: false)
        #expect(results == [.queued, .queued, .queued])
        await queue.close()
    }

    @Test("Calls of many tasks share transactions")
    func groups() async throws {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue(SQLitePushQueue.Options(busyTimeout: .seconds(30)))
        let lock = try await self.lock(fixture)
        let before = queue.commitCount
        let pushes = try fixture.pushes(300)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for push in pushes {
                group.addTask { _ = try await queue.enqueue([push], isPartial: false) }
            }
            group.addTask { try await self.unlock(lock, when: 300, run: queue) }
            try await group.waitForAll()
        }
        // A slow machine ends some transactions early.
        #expect(queue.commitCount - before <= 100, "\(queue.commitCount - before) transactions")
        let counts = try await queue.counts()
        #expect(counts.queued == 300)
        await queue.close()
    }

    /// Another connection that has locked the database, so that calls gather.
    private func lock(_ fixture: SQLiteFixture) async throws -> DatabaseQueue {
        let other = try fixture.otherConnection()
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        return other
    }

    /// Unlocks the database once this many calls wait for it.
    private func unlock(_ other: DatabaseQueue, when calls: Int, run queue: SQLitePushQueue) async throws {
        try? await Patience.wait(for: "the calls wait") { queue.runningCalls == calls }
        #expect(queue.runningCalls == calls)
        try await other.writeWithoutTransaction { try $0.execute(sql: "COMMIT") }
        try other.close()
    }

    @Test("A call that fails harms none of the calls that share its transaction")
    func failingCalls() async throws {
        let fixture = try SQLiteFixture()
        var options = SQLitePushQueue.Options(capacity: 1_000, busyTimeout: .seconds(30))
        options.maxPageCount = 700
        let queue = try await fixture.openQueue(options)
        let known = try fixture.push(key: "known")
        _ = try await queue.enqueue([known], isPartial: false)
        let lock = try await self.lock(fixture)
        let good = try fixture.pushes(200)
        let conflict = [try fixture.push(), try fixture.push(key: "known", digest: [2])]
        let tooMany = try fixture.pushes(1_000)
        let tooLarge = try (0..<300).map { _ in try fixture.push(payloadSize: 20_000) }
        let results = try await withThrowingTaskGroup(of: Result<[EnqueueResult], QueueError>.self) { group in
            for (index, push) in good.enumerated() {
                group.addTask {
                    do throws(QueueError) {
                        return .success(try await queue.enqueue([push], isPartial: false))
                    } catch {
                        return .failure(error)
                    }
                }
                let bad = index == 50 ? conflict : index == 100 ? tooMany : index == 150 ? tooLarge : nil
                guard let bad else { continue }
                group.addTask {
                    do throws(QueueError) {
                        return .success(try await queue.enqueue(bad, isPartial: false))
                    } catch {
                        return .failure(error)
                    }
                }
            }
            group.addTask {
                try await self.unlock(lock, when: good.count + 3, run: queue)
                return .success([])
            }
            var results: [Result<[EnqueueResult], QueueError>] = []
            for try await result in group { results.append(result) }
            return results
        }
        #expect(results.filter { $0 == .success([.queued]) }.count == 200)
        #expect(results.contains(.success([.queued, .conflict(with: known.id)])))
        let errors = results.compactMap { result in if case .failure(let error) = result { error.code } else { nil } }
        #expect(Set(errors) == [.full, .unavailable] && errors.count == 2)
        for push in good {
            let status = try await queue.status(of: push.id)
            #expect(status?.state == .queued)
        }
        let counts = try await queue.counts()
        #expect(counts.queued == 201)
        await queue.close()
        // What is counted is what is stored.
        let again = try await fixture.openQueue()
        let stored = try await again.counts()
        #expect(stored.routes == counts.routes)
        await again.close()
    }

    @Test("Names that a failed call has added are not used by later calls")
    func namesOfFailedCalls() async throws {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        let known = try fixture.push(key: "known")
        _ = try await queue.enqueue([known], isPartial: false)
        var push = try fixture.push()
        push.route.app = "new"
        push.route.caller = "new"
        let conflict = try fixture.push(key: "known", digest: [2])
        for _ in 0..<2 {
            let results = try await queue.enqueue([push, conflict], isPartial: false)
            #expect(results == [.queued, .conflict(with: known.id)])
        }
        var other = try fixture.push()
        other.route.app = "other"
        other.route.caller = "other"
        _ = try await queue.enqueue([other], isPartial: false)
        _ = try await queue.enqueue([push], isPartial: false)
        let statuses = [try await queue.status(of: other.id), try await queue.status(of: push.id)]
        #expect(statuses.map { $0?.route.app } == ["other", "new"])
        #expect(statuses.map { $0?.route.caller } == ["other", "new"])
        await queue.close()
    }

    @Test("Everything of a pruned push is deleted")
    func pruned() async throws {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        var pushes = try (0..<20).map { try fixture.push(key: "order-\($0)") }
        for index in pushes.indices { pushes[index].supersedes = SupersedeKey("match-\(index % 7)") }
        _ = try await queue.enqueue(pushes, isPartial: false)
        let claims = try await queue.claim(5)
        try await queue.park(claims.map { Settlement(claim: $0, outcome: .lost($0.id, attempts: 0)) })
        try await queue.settleAll()
        fixture.clock.advance(by: .seconds(10))
        let nothing = Retention(outcomes: .zero, idempotencyKeys: .zero, parked: .zero)
        while try await queue.prune(nothing, limit: 7) > 0 {}
        for table in ["push", "queue", "flight", "parked", "attempt", "outcome", "ident", "idempotency"] {
            let count = try self.count(fixture, table)
            #expect(count == 0, "rows of \(table)")
        }
        await queue.close()
    }

    @Test("A file becomes smaller after most of it was deleted")
    func shrinks() async throws {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        for _ in 0..<30 {
            let pushes = try (0..<100).map { _ in try fixture.push(payloadSize: 8_000) }
            _ = try await queue.enqueue(pushes, isPartial: false)
        }
        try await queue.settleAll()
        fixture.clock.advance(by: .seconds(10))
        let before = try self.count(fixture, "pragma_page_count", "page_count")
        for _ in 0..<20 { _ = try await queue.prune(Retention(outcomes: .zero), limit: 1_000) }
        let after = try self.count(fixture, "pragma_page_count", "page_count")
        #expect(before > 6_000 && after < before / 4 * 3, "\(before) pages before, \(after) after")
        await queue.close()
    }

    private func count(_ fixture: SQLiteFixture, _ table: String, _ value: String = "count(*)") throws -> Int {
        let other = try fixture.otherConnection()
        defer { try? other.close() }
        return try other.read { try Int.fetchOne($0, sql: "SELECT \(value) FROM \(table)") ?? 0 }
    }
}
