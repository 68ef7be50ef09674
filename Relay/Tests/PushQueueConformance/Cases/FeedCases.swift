import APNSModel
import PushQueue

enum FeedCases {
    static let all = [
        ConformanceCase("An empty feed has no cursor of its own, and returns the cursor that was passed") { test in
            for kind in [FeedKind.outcomes, .invalidTokens] {
                var page = try await test.queue.outcomes(after: nil, apps: nil, kind: kind, limit: 10)
                try expect(page.entries.isEmpty && page.cursor == nil, "the feed is not empty")
                let cursor = FeedCursor(position: 17)
                page = try await test.queue.outcomes(after: cursor, apps: nil, kind: kind, limit: 10)
                try expect(
                    page.entries.isEmpty && page.cursor == page.gap.map(\.resume) ?? cursor,
                    "the cursor was not kept"
                )
            }
        },
        ConformanceCase("Outcomes are listed once, in the order in which they were settled") { test in
            var ids: [APNSID] = []
            for number in 0..<10 {
                let push = try test.push()
                if number.isMultiple(of: 3) {
                    try await test.store(push)
                    _ = try await test.queue.cancel(push.id)
                } else {
                    try await test.complete(push)
                }
                ids.append(push.id)
            }
            for limit in [1, 3, 100] {
                let entries = try await test.feed(limit: limit)
                try expectEqual(entries.map(\.push.id), ids, "feed")
                try expect(entries.allSatisfy { $0.push.state == .settled }, "an entry is not settled")
                try expect(
                    zip(entries, entries.dropFirst()).allSatisfy { $0.cursor < $1.cursor },
                    "the cursors do not increase"
                )
            }
        },
        ConformanceCase("A reader can continue a feed after any cursor") { test in
            var ids: [APNSID] = []
            for _ in 0..<6 {
                let push = try test.push()
                try await test.complete(push)
                ids.append(push.id)
            }
            let entries = try await test.feed()
            for (index, entry) in entries.enumerated() {
                let rest = try await test.feed(after: entry.cursor)
                try expectEqual(rest.map(\.push.id), Array(ids.dropFirst(index + 1)), "the rest of the feed")
            }
            let last = try unwrap(entries.last, "entry").cursor
            let push = try test.push()
            try await test.complete(push)
            try expectEqual(try await test.feed(after: last).map(\.push.id), [push.id], "new outcomes")
        },
        ConformanceCase("An entry of the feed equals the status of its push") { test in
            let push = try test.push()
            try await test.complete(push, .rejected(push.id))
            let entry = try unwrap(try await test.feed().first, "entry").push
            let status = try await test.status(push)
            try expectEqual(entry.outcome, status.outcome, "outcome")
            try expectEqual(entry.token, push.token, "token")
            try expectEqual(entry.route, push.route, "route")
            try expectEqual(entry.attempts, 1, "attempts")
            try expectEqual(entry.queuedAt, status.queuedAt, "queuedAt")
            try expectEqual(entry.settledAt, status.settledAt, "settledAt")
        },
        ConformanceCase("A feed can be limited to some apps") { test in
            var ids: [String: [APNSID]] = [:]
            for number in 0..<12 {
                let app = ["fern", "moss", "reed"][number % 3]
                let push = try test.push(Route(app: app, environment: "production", lane: .bulk, caller: "shop"))
                try await test.complete(push)
                ids[app, default: []].append(push.id)
            }
            try expectEqual(try await test.feed(apps: ["moss"]).map(\.push.id), ids["moss"] ?? [], "feed of one app")
            let both = try await test.feed(apps: ["moss", "fern", "unknown"])
            try expectEqual(Set(both.map(\.push.route.app)), ["moss", "fern"], "apps")
            try expectEqual(both.count, 8, "outcomes of two apps")
            try expectEqual(try await test.feed(apps: []).count, 0, "outcomes of no app")
            try expectEqual(try await test.feed(apps: ["unknown"]).count, 0, "outcomes of an unknown app")
        },
        ConformanceCase("The feed of invalid tokens has only outcomes that invalidate a token") { test in
            var ids: [APNSID] = []
            for number in 0..<9 {
                let app = number.isMultiple(of: 2) ? "fern" : "moss"
                let push = try test.push(Route(app: app, environment: "production", lane: .bulk, caller: "shop"))
                switch number % 3 {
                case 0:
                    let gone = Rejection(status: 410, reason: .unregistered, timestamp: 1_700_000_000_000)
                    try await test.complete(push, .failed(.rejected(gone, attempts: 1)))
                    ids.append(push.id)
                case 1: try await test.complete(push)
                default: try await test.complete(push, .rejected(push.id, reason: .badDeviceToken))
                }
            }
            let entries = try await test.feed(.invalidTokens, limit: 2)
            try expectEqual(entries.map(\.push.id), ids, "feed")
            let invalidation = TokenInvalidation(millisecondsSince1970: 1_700_000_000_000)
            try expect(
                entries.allSatisfy { $0.push.outcome?.invalidation == invalidation },
                "an entry invalidates no token"
            )
            try expectEqual(try await test.feed(.invalidTokens, apps: ["moss"]).map(\.push.id), [ids[1]], "one app")
            // Both feeds use the same cursors.
            let cursor = try unwrap(entries.first, "entry").cursor
            try expectEqual(try await test.feed(after: cursor).count, 8, "outcomes after the first invalid token")
        },
        ConformanceCase("A page after a cursor before deleted outcomes has a gap, and begins after it") { test in
            var cursors: [FeedCursor] = []
            for _ in 0..<4 {
                try await test.complete(try test.push())
                cursors.append(try unwrap(try await test.feed().last, "entry").cursor)
                await test.advance(10)
            }
            let retention = Retention(outcomes: test.fixture.tick * 15)
            _ = try await test.queue.prune(retention, limit: 100)
            for kind in [FeedKind.outcomes, .invalidTokens] {
                let page = try await test.queue.outcomes(after: cursors[0], apps: nil, kind: kind, limit: 10)
                let gap = try unwrap(page.gap, "gap")
                try expectEqual(gap.reason, .deleted, "reason")
                try expect(gap.first > cursors[0].position && gap.last < cursors[3].position, "other positions")
                try expectEqual(gap.resume.position, gap.last, "where to continue")
                if kind == .outcomes { try expectEqual(page.entries.last?.cursor, cursors[3], "last entry") }
                let rest = try await test.queue.outcomes(after: gap.resume, apps: nil, kind: kind, limit: 10)
                try expect(rest.gap == nil, "a second gap")
                try expectEqual(rest.entries.map(\.cursor), page.entries.map(\.cursor), "the rest of the feed")
            }
            for cursor in [nil, cursors[3]] {
                let page = try await test.queue.outcomes(after: cursor, apps: nil, kind: .outcomes, limit: 10)
                try expect(page.gap == nil, "a gap where nothing is missing")
            }
        },
        ConformanceCase("A reader who polls for invalid tokens has no gap when other outcomes are deleted") { test in
            var cursor: FeedCursor?
            let retention = Retention(outcomes: test.fixture.tick * 15)
            for _ in 0..<3 {
                for _ in 0..<2 {
                    try await test.complete(try test.push())
                    await test.advance(10)
                }
                let page = try await test.queue.outcomes(after: cursor, apps: nil, kind: .invalidTokens, limit: 10)
                try expect(page.gap == nil && page.entries.isEmpty, "a page with a gap or an entry")
                let end = try unwrap(page.cursor, "cursor")
                try expectEqual(end, try unwrap(try await test.feed().last, "entry").cursor, "the end of the feed")
                await test.advance(20)
                _ = try await test.queue.prune(retention, limit: 100)
                let next = try await test.queue.outcomes(after: end, apps: nil, kind: .invalidTokens, limit: 10)
                try expect(next.gap == nil && next.cursor == end, "the end of the feed was not kept")
                cursor = end
            }
            let push = try test.push()
            let gone = Rejection(status: 410, reason: .unregistered, timestamp: 1_700_000_000_000)
            try await test.complete(push, .failed(.rejected(gone, attempts: 1)))
            try expectEqual(try await test.feed(.invalidTokens, after: cursor).map(\.push.id), [push.id], "new entries")
        },
        ConformanceCase("A limit of zero or less returns no entries and the cursor that was passed") { test in
            try await test.complete(try test.push())
            for limit in [0, -1] {
                let page = try await test.queue.outcomes(after: nil, apps: nil, kind: .outcomes, limit: limit)
                try expect(page.entries.isEmpty && page.cursor == nil, "a limit of \(limit) listed something")
            }
        },
    ]
}
