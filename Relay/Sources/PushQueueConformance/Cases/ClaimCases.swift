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
        ConformanceCase("Pushes are claimed in the order in which they are due") { test in
            let start = test.now
            var pushes: [NewPush] = []
            for ticks in [5, 1, 4, 2, 3] {
                pushes.append(try test.push(due: start.advanced(by: test.fixture.tick * ticks)))
            }
            try await test.store(pushes)
            await test.advance(6)
            var order: [APNSID] = []
            while true {
                let claimed = try await test.claim(2)
                try expect(claimed.count <= 2, "more pushes than the limit")
                guard !claimed.isEmpty else { break }
                order += claimed.map(\.claim.id)
            }
            try expectEqual(order, pushes.sorted { $0.notBefore < $1.notBefore }.map(\.id), "order")
        },
        ConformanceCase("A push is not claimed before it is due") { test in
            let push = try test.push(due: test.inTicks(5))
            try await test.store(push)
            try expectEqual(try await test.claim().count, 0, "claims before notBefore")
            await test.advance(5)
            _ = try await test.claim(push)
        },
        ConformanceCase("Only pushes of the route are claimed") { test in
            let routes = [
                Route(app: "fern", environment: "production", lane: .interactive, caller: "shop"),
                Route(app: "fern", environment: "production", lane: .bulk, caller: "shop"),
                Route(app: "fern", environment: "development", lane: .interactive, caller: "shop"),
                Route(app: "moss", environment: "production", lane: .interactive, caller: "shop"),
            ]
            var pushes: [NewPush] = []
            for route in routes { pushes.append(try test.push(route)) }
            try await test.store(pushes)
            for (route, push) in zip(routes, pushes) {
                let claimed = try await test.claim(route: route)
                try expectEqual(claimed.map(\.claim.id), [push.id], "pushes of \(route)")
            }
            let unknown = Route(app: "no pushes", environment: "production", lane: .bulk, caller: "shop")
            try expectEqual(try await test.claim(route: unknown).count, 0, "claims of an unknown route")
        },
        ConformanceCase("A claimed push is not claimed again while its lease lasts") { test in
            let push = try test.push()
            try await test.store(push)
            _ = try await test.claim(push)
            await test.advance(Harness.longLease - 10)
            _ = try await test.queue.expireLeases()
            try expectEqual(try await test.claim().count, 0, "claims of a claimed push")
        },
        ConformanceCase("A limit of zero or less claims nothing") { test in
            try await test.store(try test.push())
            for limit in [0, -1, Int.min] {
                try expectEqual(try await test.claim(limit).count, 0, "claims with the limit \(limit)")
            }
        },
        ConformanceCase("The epoch increases with each claim of a push") { test in
            let push = try test.push()
            try await test.store(push)
            var last = Int64.min
            for _ in 0..<5 {
                let claim = try await test.claim(push)
                try expect(claim.epoch > last, "the epoch \(claim.epoch) is not larger than \(last)")
                last = claim.epoch
                try await test.queue.release([Release(claim: claim, notBefore: test.now)])
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
