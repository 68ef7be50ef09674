import APNSModel
import PushQueue

enum ClaimCases {
    static let all = [
        ConformanceCase("A claimed push is the push that was stored") { test in
            let push = try test.push(expiration: .at(secondsSince1970: 4_000_000_000), resendsUnknown: true)
            try await test.store(push)
            let claimed = try await test.claim()
            try expectEqual(claimed.count, 1, "number of claims")
            let claim = try unwrap(claimed.first, "claim")
            try expectEqual(claim.claim.id, push.id, "id")
            try expectEqual(claim.token, push.token, "token")
            try expectEqual(claim.push, push.push, "headers and payload")
            try expectEqual(claim.deadline, push.deadline, "deadline")
            try expectEqual(claim.attempts, 0, "attempts")
            try expectEqual(claim.resendsUnknown, true, "resendsUnknown")
            try expectEqual(claim.mayBeProcessed, false, "mayBeProcessed")
            try await test.expectState(push, .claimed)
        },
        ConformanceCase("Headers and payloads of every form are stored unchanged") { test in
            let forms = try [
                PreparedPush(topic: "t", pushType: .background, payload: Array("{}".utf8), priority: .conserve),
                PreparedPush(topic: "t", pushType: .alert, payload: Array("{}".utf8), expiration: .immediate),
                PreparedPush(
                    topic: "t.voip",
                    pushType: .voip,
                    payload: [UInt8](repeating: 0x20, count: 5_120),
                    priority: .immediate
                ),
                PreparedPush(
                    topic: "t",
                    pushType: PushType(rawValue: "new"),
                    payload: [0, 255, 0],
                    priority: Priority(rawValue: 7),
                    expiration: .at(secondsSince1970: 99_999_999_999),
                    collapseID: CollapseID("x y"),
                    skippingValidation: true
                ),
                PreparedPush(topic: "t", pushType: .alert, payload: [], skippingValidation: true),
            ]
            var pushes: [NewPush] = []
            for form in forms {
                var push = try test.push(token: String(repeating: "0f", count: 500))
                push.push = form
                pushes.append(push)
            }
            try await test.store(pushes)
            let claimed = try await test.claim()
            let found = Dictionary(claimed.map { ($0.claim.id, $0.push) }) { first, _ in first }
            for push in pushes { try expectEqual(found[push.id], push.push, "headers and payload") }
            try expectEqual(claimed.first?.token, pushes.first?.token, "token")
        },
        ConformanceCase("A limit of zero or less claims nothing") { test in
            try await test.store(try test.push())
            for limit in [0, -1, Int.min] {
                try expectEqual(try await test.claim(limit).count, 0, "claims with the limit \(limit)")
            }
        },
        ConformanceCase("Pushes with equal due times are all claimed, page by page") { test in
            let due = test.now
            var pushes: [NewPush] = []
            for _ in 0..<25 { pushes.append(try test.push(due: due)) }
            try await test.store(pushes)
            var ids: Set<APNSID> = []
            while true {
                let claimed = try await test.claim(4)
                guard !claimed.isEmpty else { break }
                for push in claimed {
                    try expect(ids.insert(push.claim.id).inserted, "a push was claimed twice")
                }
            }
            try expectEqual(ids, Set(pushes.map(\.id)), "claimed pushes")
        },
    ]
}
