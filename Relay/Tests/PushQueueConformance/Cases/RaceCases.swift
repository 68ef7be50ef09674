import APNSModel
import PushQueue
import Synchronization

/// Many tasks that use one queue at the same time.
enum RaceCases {
    static let all = [
        ConformanceCase("Tasks that claim the same pushes at the same time never get one twice") { test in
            let count = 400
            for first in stride(from: 0, to: count, by: 50) {
                var pushes: [NewPush] = []
                for _ in first..<first + 50 { pushes.append(try test.push()) }
                try await test.store(pushes)
            }
            let marked = try await withThrowingTaskGroup(of: [APNSID].self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        var marked: [APNSID] = []
                        while true {
                            let claims = try await test.queue.claim(
                                Harness.route,
                                limit: 7,
                                lease: test.lease
                            )
                            .map(\.claim)
                            guard !claims.isEmpty else { return marked }
                            let marks = try await test.queue.markWritten(claims, lease: test.lease)
                            let written = zip(claims, marks).filter(\.1).map(\.0)
                            marked += written.map(\.id)
                            let results = try await test.queue.settle(
                                written.map { Settlement(claim: $0, outcome: .ok($0.id)) }
                            )
                            try expect(results.allSatisfy { $0 == .settled }, "an outcome was not stored")
                        }
                    }
                }
                var marked: [APNSID] = []
                for try await ids in group { marked += ids }
                return marked
            }
            try expectEqual(marked.count, count, "marks")
            try expectEqual(Set(marked).count, count, "marked pushes")
            try expectEqual(try await test.feed(limit: 100).count, count, "outcomes in the feed")
            try expectEqual(try await test.queue.counts().unsettled, 0, "unsettled pushes")
        },
        ConformanceCase("Of pushes that replace one another, one is in flight at a time, and the newest is sent last") {
            test in
            try await Self.compete([test.queue], test)
        },
        ConformanceCase("Of many marks of one claim, one succeeds") { test in
            let push = try test.push()
            try await test.store(push)
            let claim = try await test.claim(push)
            let marks = try await Self.times(20) { _ in try await test.canMark(claim) }
            try expectEqual(marks.filter { $0 }.count, 1, "marks")
        },
        ConformanceCase("Of many outcomes of one push, one is stored") { test in
            let push = try test.push()
            try await test.store(push)
            let claim = try await test.write(push)
            let results = try await Self.times(20) { number in
                try await test.settle(claim, .rejected(push.id, status: 400 + number))
            }
            try expectEqual(results.filter { $0 == .settled }.count, 1, "stored outcomes")
            let outcome = try unwrap(try await test.status(push).outcome, "outcome")
            try expectEqual(
                results.filter { $0 == .alreadySettled(outcome) }.count,
                19,
                "outcomes that came later"
            )
            try expectEqual(try await test.feed().count, 1, "outcomes in the feed")
        },
        ConformanceCase("Of a mark and a cancel at the same time, one succeeds") { test in
            for _ in 0..<20 {
                let push = try test.push()
                try await test.store(push)
                let claim = try await test.claim(push)
                async let mark = test.canMark(claim)
                async let cancel = test.queue.cancel(push.id)
                let (isMarked, result) = try await (mark, cancel)
                try expectEqual(result, isMarked ? .written : .cancelled, "result of cancel")
                if isMarked { _ = try await test.settle(claim, .ok(push.id)) }
            }
        },
        ConformanceCase("Of many pushes with one idempotency key, one is stored") { test in
            let results = try await Self.times(20) { _ in
                try await test.queue.enqueue([try test.push(key: "order-1")], isPartial: false)
            }
            try expectEqual(results.filter { $0 == [.queued] }.count, 1, "stored pushes")
            let id = try unwrap(try await test.claim().first, "claim").claim.id
            try expectEqual(results.filter { $0 == [.duplicate(of: id)] }.count, 19, "duplicates")
        },
        ConformanceCase("Of many exchanges of one value, one succeeds at a time") { test in
            let exchanges = try await Self.times(10) { number in
                var count = 0
                while count < 5 {
                    let present = try await test.queue.value(forKey: "counter")
                    let next = [(present?.first ?? 0) + 1]
                    if try await test.queue.exchangeValue(next, forKey: "counter", expecting: present) { count += 1 }
                }
                return count
            }
            try expectEqual(exchanges.reduce(0, +), 50, "exchanges")
            try expectEqual(try await test.queue.value(forKey: "counter"), [50], "value")
        },
        ConformanceCase("A full queue never holds more than its capacity") { test in
            try await test.reopen(capacity: 10)
            let results = try await Self.times(30) { _ in
                do {
                    return try await test.queue.enqueue([try test.push()], isPartial: false) == [.queued]
                } catch let error as QueueError where error.code == .full {
                    return false
                }
            }
            try expectEqual(results.filter { $0 }.count, 10, "stored pushes")
            try expectEqual(try await test.queue.counts().queued, 10, "queued pushes")
        },
        ConformanceCase("A push that is stored can be read at once") { test in
            _ = try await Self.times(20) { _ in
                let push = try test.push()
                try await test.store(push)
                try await test.expectState(push, .queued)
                try expectEqual(try await test.queue.cancel(push.id), .cancelled, "result")
                try await test.expectState(push, .settled)
            }
        },
        ConformanceCase("A reader of the feed misses no push that is settled meanwhile") { test in
            let count = 60
            let isDone = Atomic<Bool>(false)
            let settling = Task {
                defer { isDone.store(true, ordering: .releasing) }
                for _ in 0..<count / 3 {
                    let pushes = [try test.push(), try test.push(), try test.push()]
                    try await test.store(pushes)
                    for push in pushes { _ = try await test.queue.cancel(push.id) }
                }
            }
            var cursor: FeedCursor?
            var ids: [APNSID] = []
            while true {
                let isComplete = isDone.load(ordering: .acquiring)
                let page = try await test.queue.outcomes(after: cursor, apps: nil, kind: .outcomes, limit: 7)
                ids += page.entries.map(\.push.id)
                if isComplete, page.cursor == cursor { break }
                cursor = page.cursor
            }
            try await settling.value
            try expectEqual(ids.count, count, "outcomes")
            try expectEqual(Set(ids).count, count, "different outcomes")
        },
    ]

    /// What the tasks of ``compete(_:_:)`` share.
    private final class Competition: Sendable {
        let isStored = Atomic(false)
        let inFlight = Mutex<Set<DeviceToken>>([])
        let last = Mutex<[DeviceToken: APNSID]>([:])

        func begin(_ push: ClaimedPush) -> Bool { self.inFlight.withLock { $0.insert(push.token).inserted } }

        func end(_ push: ClaimedPush) {
            self.last.withLock { $0[push.token] = push.claim.id }
            _ = self.inFlight.withLock { $0.remove(push.token) }
        }
    }

    /// Sends pushes to some devices from several tasks while newer ones with the same key are stored.
    static func compete(_ queues: [any PushQueue], _ test: Harness) async throws {
        let tokens = (0..<40).map { "00\($0 + 10)" }
        let competition = Competition()
        var newest: [DeviceToken: APNSID] = [:]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<4 {
                let queue = queues[number % queues.count]
                group.addTask {
                    while true {
                        let isComplete = competition.isStored.load(ordering: .acquiring)
                        try await Self.sendSome(competition, queue, test)
                        if isComplete, try await queue.counts().unsettled == 0 { return }
                    }
                }
            }
            for round in 0..<25 {
                let pushes = try tokens.shuffled().map { try test.push(token: $0, supersedes: "score") }
                for push in pushes { newest[push.token] = push.id }
                let queue = queues[round % queues.count]
                if round % 2 == 0 {
                    _ = try await queue.enqueue(pushes, isPartial: false)
                } else {
                    for push in pushes { _ = try await queue.enqueue([push], isPartial: false) }
                }
            }
            competition.isStored.store(true, ordering: .releasing)
            try await group.waitForAll()
        }
        try expectEqual(competition.last.withLock { $0 }, newest, "the last push to each device")
        try expectEqual(try await test.feed(limit: 500).count, 25 * tokens.count, "outcomes")
    }

    private static func sendSome(_ competition: Competition, _ queue: any PushQueue, _ test: Harness) async throws {
        let claims = try await queue.claim(Harness.route, limit: 30, lease: test.lease)
        for push in claims { try expect(competition.begin(push), "two pushes with one key are in flight") }
        let marks = try await queue.markWritten(claims.map(\.claim), lease: test.lease)
        try expect(!marks.contains(false), "a claim was not marked")
        for push in claims { competition.end(push) }
        let results = try await queue.settle(
            claims.map { Settlement(claim: $0.claim, outcome: .ok($0.claim.id)) }
        )
        try expect(results.allSatisfy { $0 == .settled }, "an outcome was not stored")
    }

    private static func times<Value: Sendable>(
        _ count: Int,
        _ body: @escaping @Sendable (Int) async throws -> Value
    ) async throws -> [Value] {
        try await withThrowingTaskGroup(of: Value.self) { group in
            for number in 0..<count { group.addTask { try await body(number) } }
            var values: [Value] = []
            for try await value in group { values.append(value) }
            return values
        }
    }
}
