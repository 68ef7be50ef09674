import APNSModel
import PushQueue

enum SettleCases {
    static let all = [
        ConformanceCase("An outcome is stored with its time and its attempts") { test in
            let push = try test.push()
            try await test.complete(push)
            let status = try await test.status(push)
            try expectEqual(status.state, .settled, "state")
            try expectEqual(status.outcome, .ok(push.id), "outcome")
            try expectEqual(status.attempts, 1, "attempts")
            try expectEqual(status.token, push.token, "token")
            try expectEqual(status.route, push.route, "route")
            let settledAt = try unwrap(status.settledAt, "settledAt")
            try expect(settledAt >= status.queuedAt && settledAt <= test.now, "settledAt is wrong")
            try expectEqual(try await test.claim().count, 0, "claims of a settled push")
        },
        ConformanceCase("Outcomes of every form are stored unchanged") { test in
            for outcome in try Self.forms {
                let push = try test.push()
                try await test.complete(push, outcome)
                try await test.expectState(push, .settled, outcome)
            }
        },
        ConformanceCase("The first outcome of a push is final") { test in
            let push = try test.push()
            let claim = try await test.complete(push, .rejected(push.id))
            for late in [PushOutcome.ok(push.id), .lostConnection(push.id), .rejected(push.id, status: 410)] {
                let result = try await test.settle(claim, late)
                try expectEqual(result, .alreadySettled(.rejected(push.id)), "result of a late outcome")
            }
            try await test.expectState(push, .settled, .rejected(push.id))
            try expectEqual(try await test.feed().count, 1, "outcomes in the feed")
        },
        ConformanceCase("Of two outcomes in one call, the first one is final") { test in
            let push = try test.push()
            try await test.store(push)
            let claim = try await test.write(push)
            let results = try await test.queue.settle([
                Settlement(claim: claim, outcome: .ok(push.id)),
                Settlement(claim: claim, outcome: .rejected(push.id)),
            ])
            try expectEqual(results, [.settled, .alreadySettled(.ok(push.id))], "results")
        },
        ConformanceCase("A claimed push can be settled without a mark") { test in
            let push = try test.push()
            try await test.store(push)
            let claim = try await test.claim(push)
            let outcome = PushOutcome.cancelled(push.id)
            try expectEqual(try await test.settle(claim, outcome), .settled, "result")
            try await test.expectState(push, .settled, outcome)
            try expectEqual(try await test.status(push).attempts, 0, "attempts")
        },
        ConformanceCase("An outcome from an old epoch counts only if it is accepted") { test in
            let push = try test.push(resendsUnknown: true)
            try await test.store(push)
            let old = try await test.write(push, ticks: 5)
            await test.advance(6)
            _ = try await test.queue.expireLeases()
            // Queued again, so the claim has ended.
            try expectEqual(try await test.settle(old, .rejected(push.id)), .stale, "result while queued")
            let new = try await test.write(push)
            for outcome in [PushOutcome.rejected(push.id), .notProcessed(push.id), .lostConnection(push.id)] {
                try expectEqual(try await test.settle(old, outcome), .stale, "result of \(outcome.certainty)")
            }
            try await test.expectState(push, .written)
            try expectEqual(try await test.settle(old, .ok(push.id)), .settled, "result of accepted")
            try await test.expectState(push, .settled, .ok(push.id))
            // The other attempt's claim has ended.
            let late = try await test.settle(new, .rejected(push.id))
            try expectEqual(late, .alreadySettled(.ok(push.id)), "result of the newer claim")
            try expect(!(try await test.canMark(new)), "a claim of a settled push was marked")
            try expectEqual(try await test.queue.counts().unsettled, 0, "unsettled pushes")
        },
        ConformanceCase("A late accepted outcome settles a push that is queued, claimed or parked") { test in
            for state in [PushStatus.State.queued, .claimed, .parked] {
                let push = try test.push(resendsUnknown: true)
                try await test.store(push)
                let old = try await test.write(push, ticks: 5)
                await test.advance(6)
                _ = try await test.queue.expireLeases()
                var newer: Claim?
                if state != .queued { newer = try await test.claim(push) }
                if state == .parked, let newer {
                    try await test.queue.park([Settlement(claim: newer, outcome: .notProcessed(push.id))])
                }
                try await test.expectState(push, state)
                try expectEqual(try await test.settle(old, .ok(push.id)), .settled, "result while \(state)")
                try await test.expectState(push, .settled, .ok(push.id))
                if let newer { try expect(!(try await test.canMark(newer)), "a settled push was marked") }
                try expectEqual(try await test.claim().count, 0, "claims of a settled push")
                try expectEqual(try await test.queue.counts().unsettled, 0, "unsettled pushes")
            }
        },
        ConformanceCase("Outcomes of pushes that the queue does not know are stale") { test in
            let push = try test.push()
            try await test.store(push)
            let claim = try await test.claim(push)
            for wrong in [
                Claim(id: .random(), epoch: claim.epoch, position: claim.position),
                Claim(id: .random(), epoch: 1, position: .max), Claim(id: .random(), epoch: 1, position: .min),
            ] {
                try expectEqual(try await test.settle(wrong, .ok(wrong.id)), .stale, "result of \(wrong)")
            }
            try await test.expectState(push, .claimed)
        },
        ConformanceCase("An outcome is never weaker than that of an earlier attempt") { test in
            for (first, second) in [
                (Certainty.unknown, Certainty.rejected), (.unknown, .notProcessed), (.unknown, .notSent),
                (.rejected, .notSent), (.notProcessed, .notSent), (.notSent, .rejected), (.unknown, .accepted),
                (.unknown, .unknown), (.rejected, .unknown),
            ] {
                let push = try test.push(resendsUnknown: true)
                try await test.store(push)
                let before = Self.outcome(first, push.id, "first")
                let claim = try await test.write(push)
                try await test.queue.release([Release(claim: claim, notBefore: test.now, outcome: before)])
                try await test.expectState(push, .queued, before)
                let claimed = try unwrap(try await test.claim().first, "claim")
                try expectEqual(claimed.mayBeProcessed, first == .unknown, "mayBeProcessed after \(first)")
                try expectEqual(claimed.attempts, 1, "attempts")
                try await test.mark(claimed.claim)
                let after = Self.outcome(second, push.id, "second")
                try expectEqual(try await test.settle(claimed.claim, after), .settled, "result")
                try await test.expectState(push, .settled, after.merged(with: before))
                let status = try await test.status(push)
                try expectEqual(status.outcome?.certainty, max(first, second), "certainty")
                try expectEqual(status.attempts, 2, "attempts")
            }
        },
    ]

    private static func outcome(_ certainty: Certainty, _ id: APNSID, _ message: String) -> PushOutcome {
        if certainty == .accepted { return .ok(id) }
        return .failed(PushError(code: .connectionLost, certainty: certainty, apnsID: id, message: message))
    }

    /// Outcomes that use every field.
    private static var forms: [PushOutcome] {
        get throws {
            var rejection = Rejection(
                status: 410,
                body: Array(#"{"reason":"Unregistered","timestamp":1700000000123}"#.utf8),
                apnsID: .random(),
                apnsUniqueID: "unique\u{1}é"
            )
            var forms: [PushOutcome] = [
                .accepted(Receipt(apnsID: .random(), apnsUniqueID: "unique", attempts: 3)),
                .accepted(Receipt(apnsID: .random())),
                .failed(.rejected(rejection, attempts: 2)),
                .failed(PushError(code: .credential, certainty: .notSent, message: "")),
                .failed(
                    PushError(
                        code: PushError.Code(rawValue: "new code"),
                        certainty: .notProcessed,
                        apnsID: .random(),
                        attempts: 7,
                        message: "line\nline",
                        retryAfter: .milliseconds(1_500)
                    )
                ),
                .failed(PushError(code: .deadlineExceeded, certainty: .unknown, message: "😀", retryAfter: .zero)),
                .failed(
                    .validation(
                        ValidationError(code: .payloadTooLarge, field: "payload", value: "v", limit: 1, actual: 2)
                    )
                ),
                .failed(.rejected(Rejection(status: 503, reason: nil), attempts: 1, retryAfter: .seconds(900))),
            ]
            rejection.reason = RejectionReason(rawValue: "NewReason")
            rejection.timestamp = nil
            rejection.apnsID = nil
            rejection.apnsUniqueID = nil
            rejection.rawBody = [0, 1, 2, 255]
            forms.append(.failed(.rejected(rejection, attempts: 0)))
            return forms
        }
    }
}
