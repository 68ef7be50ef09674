import APNSModel
import PushQueue

/// Counts, routes, values and closing.
enum StateCases {
    static let all = [
        ConformanceCase("Counts show each push in its state and route") { test in
            let bulk = Route(app: "fern", environment: "production", lane: .bulk, caller: "shop")
            let moss = Route(app: "moss", environment: "production", lane: .bulk, caller: "shop")
            try expectEqual(try await test.queue.counts().routes, [], "counts of an empty queue")
            for route in [bulk, moss] {
                for _ in 0..<4 { try await test.store(try test.push(route)) }
            }
            let claims = try await test.claim(3, route: bulk).map(\.claim)
            try expectEqual(claims.count, 3, "claims")
            try await test.mark(claims[0])
            try await test.queue.park([Settlement(claim: claims[1], outcome: .notProcessed(claims[1].id))])
            let counts = try await test.queue.counts()
            let expected = [
                QueueCounts.OfRoute(route: bulk, queued: 1, claimed: 1, written: 1, parked: 1),
                QueueCounts.OfRoute(route: moss, queued: 4),
            ]
            try expectEqual(counts.routes, expected, "counts")
            try expectEqual(counts.unsettled, 8, "unsettled pushes")
            try expectEqual(try await test.settle(claims[0], .ok(claims[0].id)), .settled, "result")
            try expectEqual(try await test.queue.counts().written, 0, "written pushes")
        },
        ConformanceCase("The pushes of each caller are counted, claimed and read by themselves") { test in
            let routes = ["shop", "bank"].map { caller in
                Route(app: "fern", environment: "production", lane: .bulk, caller: caller)
            }
            let batch = Route(
                app: "moss",
                environment: "development",
                lane: .bulk,
                caller: "shop",
                batch: .random()
            )
            let many = try (0..<40).map { _ in try test.push(routes[0]) }
            let single = try test.push(routes[1], key: "order")
            try await test.store(many + [single, try test.push(batch)])
            let queued = Set(try await test.queue.queuedRoutes().map(\.route))
            try expectEqual(queued, Set(routes + [batch]), "queued routes")
            let claimed = try await test.claim(5, route: routes[1])
            try expectEqual(claimed.map(\.claim.id), [single.id], "claims of the second caller")
            var counts = try await test.queue.counts()
            try expectEqual(counts.sums(\.caller).mapValues(\.unsettled), ["shop": 41, "bank": 1], "counts by caller")
            try expectEqual(counts.sums(\.app).mapValues(\.unsettled), ["fern": 41, "moss": 1], "counts by app")
            try expectEqual(counts.sums(\.destination)[single.route.destination]?.claimed, 1, "claimed pushes")
            try expectEqual(try await test.settle(claimed[0].claim, .ok(single.id)), .settled, "result")
            _ = try await test.queue.cancel(many[0].id)
            counts = try await test.queue.counts()
            try expectEqual(counts.sums(\.caller)["shop"]?.unsettled, 40, "pushes of the first caller")
            try expectEqual(counts.sums(\.caller)["bank"]?.unsettled ?? 0, 0, "pushes of the second caller")
            try expectEqual(try await test.feed().map(\.push.route), [routes[1], routes[0]], "routes in the feed")
            try await test.crash()
            try expectEqual(try await test.queue.counts().sums(\.caller)["shop"]?.unsettled, 40, "after a crash")
            try expectEqual(try await test.status(single).route, single.route, "route of a settled push")
        },
        ConformanceCase("Each queued route shows when its first push is due") { test in
            let bulk = Route(app: "fern", environment: "production", lane: .bulk, caller: "shop")
            try expectEqual(try await test.queue.queuedRoutes(), [], "routes of an empty queue")
            let soon = try test.push(due: test.inTicks(5))
            try await test.store(soon, try test.push(due: test.inTicks(9)))
            try await test.store(try test.push(bulk, due: test.inTicks(7)))
            var routes = try await test.queue.queuedRoutes()
            try expectEqual(routes.count, 2, "number of routes")
            try expect(
                routes.contains(QueuedRoute(route: soon.route, due: soon.notBefore)),
                "due time of \(soon.route)"
            )
            await test.advance(10)
            _ = try await test.claim(2)
            routes = try await test.queue.queuedRoutes()
            try expectEqual(routes.map(\.route), [bulk], "routes with queued pushes")
        },
        ConformanceCase("A value is stored, replaced and removed") { test in
            let queue = test.queue
            try expectEqual(try await queue.value(forKey: "a"), nil, "a value that was never stored")
            try await queue.setValue([1, 2], forKey: "a")
            try await queue.setValue([], forKey: "empty")
            try await queue.setValue([UInt8](repeating: 7, count: 10_000), forKey: "a\u{1}b")
            try expectEqual(try await queue.value(forKey: "a"), [1, 2], "value")
            try expectEqual(try await queue.value(forKey: "empty"), [], "empty value")
            try expectEqual(try await queue.value(forKey: "a\u{1}b")?.count, 10_000, "size of a large value")
            try await queue.setValue([3], forKey: "a")
            try expectEqual(try await queue.value(forKey: "a"), [3], "replaced value")
            try await queue.setValue(nil, forKey: "a")
            try await queue.setValue(nil, forKey: "unknown")
            try expectEqual(try await queue.value(forKey: "a"), nil, "removed value")
            try await test.reopen()
            try expectEqual(try await test.queue.value(forKey: "a\u{1}b")?.count, 10_000, "value after reopening")
            try expectEqual(try await test.queue.value(forKey: "a"), nil, "removed value after reopening")
        },
        ConformanceCase("Values with a prefix are found, and no others") { test in
            let queue = test.queue
            for key in ["relay", "relay/", "relay/a", "relay/b", "relay0", "other"] {
                try await queue.setValue(Array(key.utf8), forKey: key)
            }
            let found = try await queue.values(withPrefix: "relay/")
            try expectEqual(found.keys.sorted(), ["relay/", "relay/a", "relay/b"], "keys")
            try expectEqual(found["relay/b"], Array("relay/b".utf8), "value")
            try expectEqual(try await queue.values(withPrefix: "nothing"), [:], "values with an unknown prefix")
            try expectEqual(try await queue.values(withPrefix: "").count, 6, "number of all values")
            let first = try await queue.values(withPrefix: "relay", after: nil, limit: 2)
            try expectEqual(first.map(\.key), ["relay", "relay/"], "keys of the first page")
            let second = try await queue.values(withPrefix: "relay", after: "relay/", limit: 9)
            try expectEqual(second.map(\.key), ["relay/a", "relay/b", "relay0"], "keys of the second page")
            let before = try await queue.values(withPrefix: "relay/", after: "other", limit: 1)
            try expectEqual(before.map(\.key), ["relay/"], "keys after one before the prefix")
        },
        ConformanceCase("A value is exchanged only if it is the expected one") { test in
            let queue = test.queue
            try expectEqual(try await queue.exchangeValue([1], forKey: "a", expecting: [0]), false, "no value")
            try expectEqual(try await queue.exchangeValue([1], forKey: "a", expecting: nil), true, "first value")
            try expectEqual(try await queue.exchangeValue([2], forKey: "a", expecting: nil), false, "second value")
            try expectEqual(try await queue.exchangeValue([2], forKey: "a", expecting: [1, 0]), false, "wrong value")
            try expectEqual(try await queue.value(forKey: "a"), [1], "value")
            try expectEqual(try await queue.exchangeValue([], forKey: "a", expecting: [1]), true, "empty value")
            try expectEqual(try await queue.exchangeValue([2], forKey: "a", expecting: nil), false, "after empty")
            try expectEqual(try await queue.exchangeValue(nil, forKey: "a", expecting: []), true, "removal")
            try expectEqual(try await queue.value(forKey: "a"), nil, "removed value")
            try await queue.setValue([5], forKey: "b")
            try await test.crash()
            try expectEqual(try await test.queue.exchangeValue([6], forKey: "b", expecting: [5]), true, "later process")
        },
        ConformanceCase("A queue that can be used passes the check of its storage, which changes nothing") { test in
            let push = try test.push()
            try await test.store(push)
            let counts = try await test.queue.counts()
            for _ in 0..<2 { try await test.queue.checkStorage() }
            try expectEqual(try await test.queue.counts(), counts, "counts")
            try await test.expectState(push, .queued)
        },
        ConformanceCase("A queue at its capacity does not pass the check of its storage until there is room") { test in
            try await test.reopen(capacity: 2)
            // A queue that several relays share counts its pushes now and then, before it settles.
            _ = try await test.queue.settleOverdue(limit: 1)
            let push = try test.push()
            try await test.store(push)
            try await test.queue.checkStorage()
            try await test.store(try test.push())
            try await expectError(.full) { try await test.queue.checkStorage() }
            _ = try await test.queue.cancel(push.id)
            try await Patience.wait(for: "room") {
                _ = try await test.queue.settleOverdue(limit: 1)
                return (try? await test.queue.checkStorage()) != nil
            }
        },
        ConformanceCase("A closed queue throws closed for every call") { test in
            let push = try test.push()
            try await test.store(push)
            let queue = test.queue
            let claim = try await test.claim(push)
            await queue.close()
            await queue.close()
            let settlement = Settlement(claim: claim, outcome: .ok(push.id))
            try await expectError(.closed) { try await queue.enqueue([push], isPartial: false) }
            try await expectError(.closed) { try await test.claim() }
            try await expectError(.closed) { try await queue.markWritten([claim], lease: test.lease) }
            try await expectError(.closed) { try await queue.settle([settlement]) }
            try await expectError(.closed) { try await queue.release([Release(claim: claim, notBefore: test.now)]) }
            try await expectError(.closed) { try await queue.park([settlement]) }
            try await expectError(.closed) { try await queue.expireLeases() }
            try await expectError(.closed) { try await queue.settleOverdue(limit: 1) }
            try await expectError(.closed) { try await queue.checkStorage() }
            try await expectError(.closed) { try await queue.status(of: push.id) }
            try await expectError(.closed) { try await queue.cancel(push.id) }
            try await expectError(.closed) {
                try await queue.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 1)
            }
            try await expectError(.closed) { try await queue.parked(after: nil, limit: 1) }
            try await expectError(.closed) { try await queue.retryParked(push.id) }
            try await expectError(.closed) { try await queue.dropParked(push.id) }
            try await expectError(.closed) { try await queue.counts() }
            try await expectError(.closed) { try await queue.queuedRoutes() }
            try await expectError(.closed) { try await queue.value(forKey: "a") }
            try await expectError(.closed) { try await queue.setValue([1], forKey: "a") }
            try await expectError(.closed) { try await queue.values(withPrefix: "a") }
            try await expectError(.closed) { try await queue.exchangeValue([1], forKey: "a", expecting: nil) }
            try await expectError(.closed) { try await queue.prune(Retention(), limit: 1) }
        },
        ConformanceCase("Closing waits for running calls, and their effects are stored") { test in
            let queue = test.queue
            var pushes: [NewPush] = []
            for _ in 0..<20 { pushes.append(try test.push()) }
            let stored = try await withThrowingTaskGroup(of: APNSID?.self) { group in
                for push in pushes {
                    group.addTask {
                        do {
                            _ = try await queue.enqueue([push], isPartial: false)
                            return push.id
                        } catch let error as QueueError where error.code == .closed {
                            return nil
                        }
                    }
                }
                group.addTask {
                    await queue.close()
                    return nil
                }
                var stored: Set<APNSID> = []
                for try await id in group { if let id { stored.insert(id) } }
                return stored
            }
            try await test.reopen()
            for push in pushes {
                let isKnown = try await test.queue.status(of: push.id) != nil
                try expectEqual(isKnown, stored.contains(push.id), "whether the push is known")
            }
        },
        ConformanceCase("A reopened queue has the same contents") { test in
            let pushes = [try test.push(key: "order-1"), try test.push(), try test.push()]
            try await test.store(pushes)
            _ = try await test.queue.cancel(pushes[1].id)
            let parked = Route(app: "a", environment: "b", lane: .bulk, caller: "shop")
            try await ParkCases.park(try test.push(parked), test)
            let counts = try await test.queue.counts()
            let feed = try await test.feed()
            try await test.reopen()
            try expectEqual(try await test.queue.counts().routes, counts.routes, "counts")
            try expectEqual(try await test.feed().map(\.cursor), feed.map(\.cursor), "cursors")
            let again = try test.push(key: "order-1")
            let results = try await test.queue.enqueue([again], isPartial: false)
            try expectEqual(results, [.duplicate(of: pushes[0].id)], "results")
            try expectEqual(try await test.claim().count, 2, "claims")
        },
    ]
}
