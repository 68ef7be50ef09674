import APNSModel
import Foundation
import GRDB
import PushQueue
import SQLitePushQueue
import Testing

/// Damaged files: no call may crash the process, and nothing may be reported that is not so.
@Suite struct DamageTests {
    /// A closed file with pushes in every state.
    private func makeFile() async throws -> SQLiteFixture {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        _ = try await queue.enqueue(fixture.pushes(60), isPartial: false)
        _ = try await queue.enqueue([fixture.push(payloadSize: 9_000, key: "order-1")], isPartial: false)
        let claims = try await queue.claim(40)
        _ = try await queue.markWritten(claims, lease: .seconds(60))
        _ = try await queue.settle(claims.prefix(30).map { Settlement(claim: $0, outcome: .cancelled($0.id)) })
        try await queue.park(claims.suffix(5).map { Settlement(claim: $0, outcome: .cancelled($0.id)) })
        try await queue.setValue([1], forKey: "webhook")
        await queue.close()
        return fixture
    }

    /// Makes every kind of call. They may fail, but only with errors of storage.
    private func useAll(_ queue: SQLitePushQueue, _ fixture: SQLiteFixture) async throws -> [QueueError] {
        let push = try fixture.push(key: "order-1")
        let claims = (try? await queue.claim(100)) ?? []
        let calls: [() async throws -> Void] = [
            { _ = try await queue.enqueue([push], isPartial: true) },
            { _ = try await queue.claim(100) },
            { _ = try await queue.markWritten(claims, lease: .seconds(1)) },
            {
                _ = try await queue.settle(claims.map { Settlement(claim: $0, outcome: .cancelled($0.id)) })
            },
            { _ = try await queue.expireLeases() },
            { _ = try await queue.settleOverdue(limit: 100) },
            { _ = try await queue.status(of: push.id) },
            { _ = try await queue.cancel(push.id) },
            {
                for kind in [FeedKind.outcomes, .invalidTokens] {
                    _ = try await queue.outcomes(after: nil, apps: ["fern"], kind: kind, limit: 100)
                }
            },
            {
                for parked in try await queue.parked(after: nil, limit: 100) {
                    _ = try await queue.retryParked(parked.id)
                    _ = try await queue.dropParked(parked.id)
                }
            },
            { _ = try await queue.counts() },
            { _ = try await queue.queuedRoutes() },
            { _ = try await queue.value(forKey: "webhook") },
            { try await queue.setValue([2], forKey: "webhook") },
            { try await queue.checkStorage() },
            { _ = try await queue.prune(Retention(outcomes: .zero), limit: 100) },
        ]
        var errors: [QueueError] = []
        for call in calls { if let error = await failure(call) { errors.append(error) } }
        return errors
    }

    @Test("A page that was overwritten is found by the integrity check, and no call crashes")
    func overwrittenPages() async throws {
        let original = try await self.makeFile()
        let content = try Data(contentsOf: URL(fileURLWithPath: original.file))
        let pages = content.count / 4_096
        #expect(pages > 15)
        var found = 0
        for page in 0..<pages {
            let fixture = try SQLiteFixture()
            var damaged = content
            // The first page keeps its header: that of the file is tested elsewhere.
            let begin = page == 0 ? 100 : page * 4_096
            for offset in begin..<begin + 200 { damaged[offset] = UInt8(truncatingIfNeeded: offset &* 31 &+ 7) }
            try damaged.write(to: URL(fileURLWithPath: fixture.file))
            do {
                let queue = try await fixture.openQueue()
                let problems = try? await queue.checkIntegrity()
                if problems != [] { found += 1 }
                for error in try await self.useAll(queue, fixture) {
                    #expect(error.code == .unusable || error.code == .unavailable, "page \(page): \(error)")
                }
                await queue.close()
            } catch let error as QueueError {
                #expect(error.code == .unusable, "page \(page): \(error)")
                #expect(error.message.contains("damaged") && error.message.contains(fixture.file))
                found += 1
            }
        }
        // Some pages are free or hold only payload.
        #expect(found > pages / 2)
    }

    @Test("A queue that has found damage is not ready, and its process must end")
    func endsAfterDamage() async throws {
        let original = try await self.makeFile()
        let content = try Data(contentsOf: URL(fileURLWithPath: original.file))
        var found = 0
        for page in 1..<content.count / 4_096 {
            let fixture = try SQLiteFixture()
            var damaged = content
            for offset in page * 4_096..<page * 4_096 + 200 {
                damaged[offset] = UInt8(truncatingIfNeeded: offset &* 31)
            }
            try damaged.write(to: URL(fileURLWithPath: fixture.file))
            guard let queue = try? await fixture.openQueue() else { continue }
            let errors = try await self.useAll(queue, fixture)
            if errors.contains(where: { $0.code == .unusable }) {
                found += 1
                let error = await failure { try await queue.checkStorage() }
                #expect(error?.code == .unusable)
                let reason = await queue.waitForFailure()
                #expect(reason?.message.contains("restore a backup") == true)
            }
            await queue.close()
        }
        #expect(found > 3)
    }

    @Test("A truncated file is not opened, and nothing is overwritten")
    func truncated() async throws {
        let original = try await self.makeFile()
        let content = try Data(contentsOf: URL(fileURLWithPath: original.file))
        for size in [1, 99, 100, 512, 4_096, 8_192, content.count / 2, content.count - 4_096, content.count - 1] {
            let fixture = try SQLiteFixture()
            let damaged = content.prefix(size)
            try damaged.write(to: URL(fileURLWithPath: fixture.file))
            let error = await failure { try await fixture.openQueue() }
            #expect(error?.code == .unusable, "\(size) bytes: \(String(describing: error))")
            #expect(try Data(contentsOf: URL(fileURLWithPath: fixture.file)) == damaged)
        }
    }

    @Test("An empty file is named, and is not taken for a new queue")
    func emptyFile() async throws {
        let fixture = try SQLiteFixture()
        try Data().write(to: URL(fileURLWithPath: fixture.file))
        let error = await failure { try await fixture.openQueue() }
        #expect(error?.code == .unusable)
        #expect(error?.message.hasPrefix("\(fixture.file) is empty") == true, "\(String(describing: error))")
        #expect(try Data(contentsOf: URL(fileURLWithPath: fixture.file)).isEmpty)
    }

    @Test("After a restore, the log that was left is named as the likely cause of damage")
    func logOfAnotherFile() async throws {
        // A small file is restored, and the log of the large one before it is left.
        let backup = try SQLiteFixture()
        await (try await backup.openQueue()).close()
        let before = try SQLiteFixture()
        let queue = try await before.openQueue()
        _ = try await queue.enqueue(before.pushes(2_000), isPartial: false)
        try SQLiteFixture.copy(before.file, to: backup.file + "-before")
        await queue.close()
        var content = try Data(contentsOf: URL(fileURLWithPath: backup.file)).prefix(8_192)
        content[4_096..<8_192] = Data(repeating: 0xA5, count: 4_096)[...]
        try content.write(to: URL(fileURLWithPath: backup.file))
        let log = try Data(contentsOf: URL(fileURLWithPath: backup.file + "-before-wal"))
        #expect(!log.isEmpty)
        // It ends before its first commit, so that the damage below it shows.
        try log.prefix(32 + 24 + 4_096).write(to: URL(fileURLWithPath: backup.file + "-wal"))
        var message = ""
        do {
            let damaged = try await backup.openQueue()
            message = try await self.useAll(damaged, backup).first { $0.code == .unusable }?.message ?? ""
            await damaged.close()
        } catch let error as QueueError {
            message = error.message
        }
        #expect(message.contains("damaged"), "\(message)")
        #expect(message.contains("the likely cause is \(backup.file)-wal"), "\(message)")
    }

    @Test("A file whose header was destroyed is not opened, and nothing is overwritten")
    func destroyedHeader() async throws {
        let original = try await self.makeFile()
        let content = try Data(contentsOf: URL(fileURLWithPath: original.file))
        for (offset, byte) in [(0, 0), (16, 0xFF), (18, 9), (19, 0), (21, 1), (68, 0)] {
            let fixture = try SQLiteFixture()
            var damaged = content
            damaged[offset] = UInt8(byte)
            try damaged.write(to: URL(fileURLWithPath: fixture.file))
            let error = await failure { try await fixture.openQueue() }
            #expect(error?.code == .unusable, "offset \(offset)")
            #expect(try Data(contentsOf: URL(fileURLWithPath: fixture.file)) == damaged, "offset \(offset)")
        }
    }

    @Test("A log that was overwritten loses at most what was not in the file")
    func overwrittenLog() async throws {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        _ = try await queue.enqueue(fixture.pushes(60), isPartial: false)
        let copy = try SQLiteFixture()
        try SQLiteFixture.copy(fixture.file, to: copy.file)
        await queue.close()
        var log = try Data(contentsOf: URL(fileURLWithPath: copy.file + "-wal"))
        for offset in stride(from: 32, to: log.count, by: 1_000) { log[offset] ^= 0xFF }
        try log.write(to: URL(fileURLWithPath: copy.file + "-wal"))
        let again = try await copy.openQueue()
        let problems = try await again.checkIntegrity()
        #expect(problems == [])
        _ = try await again.enqueue(copy.pushes(3), isPartial: false)
        await again.close()
    }

    @Test("The integrity check of a sound file finds nothing")
    func sound() async throws {
        let fixture = try await self.makeFile()
        let queue = try await fixture.openQueue()
        let problems = try await queue.checkIntegrity()
        #expect(problems == [])
        let errors = try await self.useAll(queue, fixture)
        #expect(errors.isEmpty)
        await queue.close()
    }

    @Test(
        "A stored push that cannot be read ends as an internal fault, and the pushes behind it are sent",
        arguments: [
            "topic = ''", "topic = 'a b'", "topic = x'00ff'", "type = ''", "collapse = ''", "token = x''",
            "token = zeroblob(501)",
        ]
    )
    func unreadable(_ change: String) async throws {
        let fixture = try SQLiteFixture()
        let queue = try await fixture.openQueue()
        let pushes = try fixture.pushes(5)
        _ = try await queue.enqueue(pushes, isPartial: false)
        await queue.close()
        try fixture.edit("UPDATE push SET \(change) WHERE position IN (1, 3)")
        let again = try await fixture.openQueue()
        try await again.settleAll()
        let counts = try await again.counts()
        #expect(counts.unsettled == 0)
        if !change.hasPrefix("token") {
            for (index, push) in pushes.enumerated() {
                let outcome = try await again.status(of: push.id)?.outcome
                let expected =
                    [0, 2].contains(index) ? PushOutcome.unreadable(push.id) : .accepted(Receipt(apnsID: push.id))
                #expect(outcome == expected)
            }
        }
        await again.close()
    }

    @Test("Rows with values of other types crash nothing")
    func wrongTypes() async throws {
        var round = 0
        for table in [
            "push", "flight", "parked", "outcome", "attempt", "queue", "ident", "idempotency", "route", "caller",
            "counter",
        ] {
            let reference = try await self.makeFile()
            let other = try reference.otherConnection()
            let columns = try await other.read { db in
                try Row.fetchAll(db, sql: "PRAGMA table_info(\(table))").filter { $0["pk"] == 0 }.map {
                    $0["name"] as String
                }
            }
            try other.close()
            for column in columns {
                // Another value for each column, and all of them in the long form.
                let isThorough = ProcessInfo.processInfo.environment["TEST_SCALE"] != nil
                let values = ["'text'", "x'00'", "-9223372036854775808", "9223372036854775807"]
                round += 1
                for value in isThorough ? values : [values[round % values.count]] {
                    let fixture = try SQLiteFixture()
                    try FileManager.default.copyItem(atPath: reference.file, toPath: fixture.file)
                    // Some changes break a constraint, and change nothing.
                    try? fixture.edit("UPDATE OR IGNORE \(table) SET \(column) = \(value)")
                    guard let queue = try? await fixture.openQueue() else { continue }
                    for error in try await self.useAll(queue, fixture) {
                        #expect(error.code == .unusable || error.code == .unavailable, "\(table).\(column): \(error)")
                    }
                    await queue.close()
                }
            }
        }
    }
}
