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
    ]

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
