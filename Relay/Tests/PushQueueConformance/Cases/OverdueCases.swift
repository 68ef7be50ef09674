import APNSModel
import PushQueue

enum OverdueCases {
    static let all = [
        ConformanceCase("A push is overdue at its deadline or expiration, whichever is earlier") { test in
            // Expirations are whole seconds.
            let now = test.now
            let second = now.millisecondsSince1970 / 1_000 + 3
            let early = QueueTime(secondsSince1970: second - 1)
            let late = QueueTime(secondsSince1970: second + 1_000)
            let byDeadline = try test.push(deadline: early, expiration: .at(secondsSince1970: second))
            let byExpiration = try test.push(deadline: late, expiration: .at(secondsSince1970: second))
            let immediate = try test.push(deadline: late, expiration: .immediate)
            try await test.store(byDeadline, byExpiration, immediate)
            try expectEqual(try await test.queue.settleOverdue(limit: 10), 0, "overdue pushes at the start")
            await test.fixture.advance(by: now.duration(to: QueueTime(secondsSince1970: second)))
            try expectEqual(try await test.queue.settleOverdue(limit: 10), 2, "overdue pushes")
            let deadline = try await test.status(byDeadline).outcome
            try expectEqual(deadline?.error?.code, .deadlineExceeded, "code")
            try expectEqual(deadline?.certainty, .notSent, "certainty")
            let expired = try await test.status(byExpiration).outcome
            try expectEqual(expired?.error?.code, .expired, "code")
            try expectEqual(expired?.certainty, .notSent, "certainty")
            _ = try await test.claim(immediate)
        },
        ConformanceCase("A push whose deadline has passed is not claimed, and pushes behind it are") { test in
            var pushes: [NewPush] = []
            let due = test.now
            for number in 0..<40 {
                // Every fourth push is not overdue later.
                let isLater = number.isMultiple(of: 4)
                let due = due.advanced(by: .milliseconds(number))
                pushes.append(try test.push(due: due, deadline: test.inTicks(isLater ? 1_000_000 : 50)))
            }
            try await test.store(pushes)
            await test.advance(50)
            var claimed: [APNSID] = []
            while true {
                let claims = try await test.claim(3)
                guard !claims.isEmpty else { break }
                claimed += claims.map(\.claim.id)
            }
            let expected = pushes.enumerated().filter { $0.offset.isMultiple(of: 4) }.map(\.element.id)
            try expectEqual(claimed, expected, "claimed pushes")
            _ = try await test.queue.settleOverdue(limit: 100)
            try expectEqual(try await test.queue.counts().queued, 0, "queued pushes")
            try expectEqual(try await test.feed().count, 30, "outcomes in the feed")
        },
        ConformanceCase("A push with a deadline in the past ends without an attempt") { test in
            let push = try test.push(deadline: test.now.advanced(by: .seconds(-1)))
            try await test.store(push)
            try expectEqual(try await test.claim().count, 0, "claims")
            _ = try await test.queue.settleOverdue(limit: 10)
            let expected = PushOutcome.overdue(push.id, deadline: push.deadline, expiration: .systemDefault)
            try await test.expectState(push, .settled, expected)
        },
        ConformanceCase("Pushes that are not due yet can become overdue") { test in
            let push = try test.push(due: test.inTicks(100), deadline: test.inTicks(10))
            try await test.store(push)
            await test.advance(10)
            try expectEqual(try await test.queue.settleOverdue(limit: 10), 1, "overdue pushes")
            try await test.expectState(push, .settled)
        },
        ConformanceCase("A call settles at most as many overdue pushes as its limit") { test in
            for _ in 0..<5 { try await test.store(try test.push(deadline: test.inTicks(1))) }
            await test.advance(2)
            try expectEqual(try await test.queue.settleOverdue(limit: 3), 3, "overdue pushes")
            try expectEqual(try await test.queue.settleOverdue(limit: 3), 2, "overdue pushes")
            try expectEqual(try await test.queue.settleOverdue(limit: 3), 0, "overdue pushes")
        },
        ConformanceCase(
            "After an implausible jump nothing expires or is pruned, and pushes that are not overdue are claimed"
        ) { test in
            let old = try test.push(key: "order-1")
            try await test.complete(old)
            var pushes: [NewPush] = []
            for number in 0..<20 {
                // Every second push is overdue after the jump.
                pushes.append(try test.push(deadline: test.inTicks(number.isMultiple(of: 2) ? 50 : 1_000_000)))
            }
            let over = try test.push(deadline: test.inTicks(1))
            try await test.store(over)
            try await test.store(pushes)
            await test.advance(2)
            let ticks = test.fixture.tick
            await test.fixture.jumpImplausibly(by: ticks * 100)
            let retention = Retention(outcomes: ticks * 50, idempotencyKeys: ticks * 50, parked: ticks * 50)
            try expectEqual(try await test.queue.prune(retention, limit: 100), 0, "deleted")
            try await test.expectState(old, .settled)
            var claimed: [APNSID] = []
            while true {
                let claims = try await test.claim(3)
                guard !claims.isEmpty else { break }
                claimed += claims.map(\.claim.id)
            }
            let (waiting, sendable) = (
                pushes.filter { $0.deadline <= test.now }, pushes.filter { $0.deadline > test.now }
            )
            try expectEqual(claimed, sendable.map(\.id), "claimed pushes")
            _ = try await test.queue.settleOverdue(limit: 100)
            for push in waiting { try await test.expectState(push, .queued) }
            // This one was overdue before the jump.
            try await test.expectState(over, .settled)
            await test.fixture.confirmJump()
            try expectEqual(try await test.queue.settleOverdue(limit: 100), 10, "overdue pushes")
            try expect(try await test.queue.prune(retention, limit: 100) > 0, "nothing was deleted")
        },
        ConformanceCase(
            "Pushes that an implausible jump made overdue are claimed after the clock is corrected"
        ) { test in
            let push = try test.push(deadline: test.inTicks(50))
            try await test.store(push)
            await test.fixture.jumpImplausibly(by: test.fixture.tick * 100)
            try expectEqual(try await test.claim().count, 0, "claims")
            await test.fixture.jumpImplausibly(by: .zero - test.fixture.tick * 100)
            _ = try await test.claim(push)
        },
        ConformanceCase("Extreme times are stored and do no harm") { test in
            let far = QueueTime(millisecondsSince1970: .max)
            let past = QueueTime(millisecondsSince1970: .min)
            let never = try test.push(due: far, deadline: far)
            let always = try test.push(due: past, deadline: far)
            let over = try test.push(due: past, deadline: past)
            var huge = try test.push()
            huge.push = try PreparedPush(
                topic: "t",
                pushType: .alert,
                payload: [0x7B, 0x7D],
                expiration: .at(secondsSince1970: .max),
                skippingValidation: true
            )
            try await test.store(never, always, over, huge)
            let claimed = try await test.claim()
            try expectEqual(Set(claimed.map(\.claim.id)), [always.id, huge.id], "claimed pushes")
            _ = try await test.queue.settleOverdue(limit: 10)
            try await test.expectState(over, .settled)
            try await test.expectState(never, .queued)
            let claim = try unwrap(claimed.first, "claim").claim
            try await test.queue.release([Release(claim: claim, notBefore: far)])
            try expectEqual(try await test.queue.cancel(claim.id), .cancelled, "result of cancel")
            try expectEqual(try await test.queue.cancel(never.id), .cancelled, "result of cancel")
        },
    ]
}
