import APNSModel
import PushQueue

/// Two processes that share a queue.
enum SharingCases {
    static let all = [
        Self.sharing("A process sends a push that another one has stored, and both know the outcome") { test, other in
            let push = try test.push()
            try await test.store(push)
            let claim = try await Self.claimed(1, other, test)[0]
            try expectEqual(claim.id, push.id, "claimed push")
            try expectEqual(try await other.markWritten([claim], lease: test.lease), [true], "marks")
            let settlement = Settlement(claim: claim, outcome: .ok(push.id))
            try expectEqual(try await other.settle([settlement]), [.settled], "results of settle")
            try await Self.eventually("the first process knows the outcome") {
                try await test.queue.status(of: push.id)?.outcome == .ok(push.id)
            }
            try expectEqual(try await test.feed().map(\.push.id), [push.id], "feed")
        },
        Self.sharing("Two processes that claim the same pushes send none twice, and read the same feed") {
            test,
            other in
            let count = 300
            for _ in 0..<6 {
                var pushes: [NewPush] = []
                for _ in 0..<count / 6 { pushes.append(try test.push()) }
                try await test.store(pushes)
            }
            async let first = Self.sendAll(test.queue, test)
            async let second = Self.sendAll(other, test)
            let sent = try await first + second
            try expectEqual(sent.count, count, "sent pushes")
            try expectEqual(Set(sent).count, count, "different sent pushes")
            try await Self.eventually("both have the same feed") {
                let feeds = (try await Self.feed(test.queue), try await Self.feed(other))
                return feeds.0 == feeds.1 && feeds.0.count == count
            }
        },
        Self.sharing("Of pushes that replace one another, two processes have one in flight at a time") { test, other in
            try await RaceCases.compete([test.queue, other], test)
        },
        Self.sharing("A claim that another process has taken over cannot be marked") { test, other in
            let push = try test.push()
            try await test.store(push)
            let old = try await test.claim(push, ticks: 2)
            await test.advance(3)
            var new: Claim?
            try await Self.eventually("the claim has ended") {
                _ = try await other.expireLeases()
                new = try await other.claim(Harness.route, limit: 1, lease: test.lease).first?.claim
                return new != nil
            }
            guard let new else { return }
            try expect(new.epoch > old.epoch, "the epoch does not increase")
            try expectEqual(try await test.canMark(old), false, "mark of the old claim")
            try expectEqual(try await other.markWritten([new], lease: test.lease), [true], "mark of the new claim")
            try expectEqual(try await test.settle(old, .rejected(push.id)), .stale, "outcome of the old claim")
        },
        Self.sharing("Of two marks by two processes for one claim, one succeeds") { test, other in
            for _ in 0..<10 {
                let push = try test.push()
                try await test.store(push)
                let claim = try await test.claim(push)
                async let first = test.queue.markWritten([claim], lease: test.lease)
                async let second = other.markWritten([claim], lease: test.lease)
                let marks = try await first + second
                try expectEqual(marks.filter { $0 }.count, 1, "marks")
                try expectEqual(try await test.settle(claim, .ok(push.id)), .settled, "result of settle")
            }
        },
        Self.sharing("A push that is submitted to two processes is stored once") { test, other in
            for number in 0..<10 {
                let (one, two) = (try test.push(key: "order-\(number)"), try test.push(key: "order-\(number)"))
                async let first = test.queue.enqueue([one], isPartial: false)
                async let second = other.enqueue([two], isPartial: false)
                let results = try await first + second
                try expectEqual(results.filter { $0 == .queued }.count, 1, "stored pushes")
                let id = results[0] == .queued ? one.id : two.id
                try expectEqual(results.filter { $0 == .duplicate(of: id) }.count, 1, "duplicates")
            }
        },
        Self.sharing("A process that ends leaves its claims to the others when their leases expire") { test, other in
            let (unsent, sent) = (try test.push(), try test.push())
            try await test.store(unsent, sent)
            let claims = try await Self.claimed(2, other, test)
            try expectEqual(try await other.markWritten([claims[1]], lease: test.lease), [true], "marks")
            await other.close()
            try expectEqual(try await test.queue.expireLeases(), ExpiredLeases(), "leases that have not expired")
            await test.advance(Harness.longLease + 1)
            var expired = ExpiredLeases()
            try await Self.eventually("both leases have ended") {
                let more = try await test.queue.expireLeases()
                expired.queued += more.queued
                expired.unknown += more.unknown
                return expired.queued + expired.unknown == 2
            }
            try expectEqual(expired.unknown, 1, "unknown")
            try await test.expectState(unsent, .queued)
            try expectEqual(try await test.status(sent).outcome?.certainty, .unknown, "certainty")
        },
        Self.sharing("Of two exchanges of one value by two processes, one succeeds") { test, other in
            for number in UInt8(0)..<10 {
                let expected: [UInt8]? = number == 0 ? nil : [number]
                async let first = test.queue.exchangeValue([number + 1], forKey: "a", expecting: expected)
                async let second = other.exchangeValue([number + 1], forKey: "a", expecting: expected)
                let results = try await [first, second]
                try expectEqual(results.filter { $0 }.count, 1, "exchanges")
            }
        },
    ]

    private static func sharing(
        _ name: String,
        _ body: @escaping @Sendable (Harness, any PushQueue) async throws -> Void
    ) -> ConformanceCase {
        ConformanceCase(name, needsSharing: true) { test in
            let other = try await test.fixture.join()
            do {
                try await body(test, other)
            } catch {
                await other.close()
                throw error
            }
            await other.close()
        }
    }

    /// Claims until there are this many claims. One call may not be enough, because a process may not yet know the
    /// pushes of another one.
    private static func claimed(_ count: Int, _ queue: any PushQueue, _ test: Harness) async throws -> [Claim] {
        var claims: [Claim] = []
        try await Self.eventually("\(count) pushes can be claimed") {
            claims += try await queue.claim(Harness.route, limit: count - claims.count, lease: test.lease).map(\.claim)
            return claims.count == count
        }
        return claims
    }

    /// Claims, marks and settles pushes until the queue has no more.
    private static func sendAll(_ queue: any PushQueue, _ test: Harness) async throws -> [APNSID] {
        var sent: [APNSID] = []
        while try await queue.counts().unsettled > 0 {
            let claims = try await queue.claim(Harness.route, limit: 7, lease: test.lease).map(\.claim)
            let marks = try await queue.markWritten(claims, lease: test.lease)
            let written = zip(claims, marks).filter(\.1).map(\.0)
            sent += written.map(\.id)
            _ = try await queue.settle(written.map { Settlement(claim: $0, outcome: .ok($0.id)) })
            if claims.isEmpty { await Task.yield() }
        }
        return sent
    }

    private static func feed(_ queue: any PushQueue) async throws -> [APNSID] {
        try await queue.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 10_000).entries.map(\.push.id)
    }

    private static func eventually(
        _ what: String,
        file: String = #fileID,
        line: Int = #line,
        _ condition: () async throws -> Bool
    ) async throws {
        do {
            try await Patience.wait(for: what, condition)
        } catch let error as Patience.Exceeded {
            throw ConformanceFailure(text: "\(error)", file: file, line: line)
        }
    }
}
