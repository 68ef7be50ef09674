import PushQueue
import Testing

@testable import APNSRelay

/// Relays over one queue.
struct FleetTests {
    @Test("Relays that share a queue see each other come and go")
    func members() async throws {
        try await FleetFixture.run { fixture in
            let (a, b, c) = (fixture.relay("a"), fixture.relay("b"), fixture.relay("c"))
            await fixture.pass(10, a, b, c)
            #expect(a.members == ["a", "b", "c"] && b.members == ["b", "a", "c"] && c.members == ["c", "a", "b"])
            await c.fleet.leave()
            await fixture.pass(5, a, b)
            #expect(a.members == ["a", "b"] && b.members == ["b", "a"])
            // Killed: it does not say so.
            b.queue.kill()
            await fixture.pass(15, a)
            #expect(a.members == ["a", "b"])
            await fixture.pass(10, a)
            #expect(a.members == ["a"])
            let values = try await fixture.base.values(withPrefix: "fleet/member/")
            #expect(Set(values.keys) == ["fleet/member/a", "fleet/member/b"])
            await fixture.pass(45, a)
            let left = try await fixture.base.values(withPrefix: "fleet/member/")
            #expect(Set(left.keys) == ["fleet/member/a"])
        }
    }

    @Test("The oldest relay that lives posts to the webhooks, through a leave and a kill")
    func oldestPosts() async throws {
        try await FleetFixture.run { fixture in
            let a = fixture.relay("a")
            #expect(a.poster == nil)
            await fixture.pass(5, a)
            #expect(a.poster == "a")
            let (b, c) = (fixture.relay("b"), fixture.relay("c"))
            await fixture.pass(10, a, b, c)
            #expect([a, b, c].map(\.poster) == ["a", "a", "a"])
            await a.fleet.leave()
            #expect(a.poster == nil)
            await fixture.pass(5, b, c)
            #expect([b, c].map(\.poster) == ["b", "b"])
            // The process is killed, so it does not leave.
            b.queue.kill()
            await fixture.pass(15, c)
            #expect(c.poster == "b")
            await fixture.pass(10, c)
            #expect(c.poster == "c")
        }
    }

    @Test("A relay whose storage fails keeps its view, and is the one that posts again when it works")
    func storageFails() async throws {
        try await FleetFixture.run { fixture in
            let a = fixture.relay("a")
            await fixture.pass(5, a)
            let b = fixture.relay("b")
            await fixture.pass(10, a, b)
            a.queue.disk.fill(for: ["setValue"])
            await fixture.pass(19, a, b)
            #expect(a.members == ["a", "b"] && b.poster == "a")
            await fixture.pass(6, a, b)
            #expect(b.poster == "b")
            a.queue.disk.clear()
            await fixture.pass(10, a, b)
            #expect([a, b].map(\.poster) == ["a", "a"])
            #expect(a.members == ["a", "b"] && b.members == ["b", "a"])
        }
    }

    @Test("Errors of the storage are retried, and the last view stays")
    func viewStays() async throws {
        try await FleetFixture.run { fixture in
            let (a, b) = (fixture.relay("a"), fixture.relay("b"))
            await fixture.pass(10, a, b)
            a.queue.disk.fill(for: ["values"])
            await fixture.pass(100, a, b)
            #expect(a.members == ["a", "b"])
            #expect(a.queue.disk.failures == 20)
            a.queue.disk.clear()
            await fixture.pass(5, a, b)
            #expect(a.members == ["a", "b"])
        }
    }

    @Test("The service takes part until it is cancelled, and then leaves", .timeLimit(.minutes(5)))
    func service() async throws {
        try await FleetFixture.run { fixture in
            let timing = FleetMachine.Timing(
                heartbeat: .milliseconds(20),
                expiry: .seconds(10),
                removal: .seconds(20)
            )
            let (first, second) = (SharedQueue(fixture.base), SharedQueue(fixture.base))
            let fleets = [("a", first), ("b", second)].map { id, queue in
                Fleet(
                    member: FleetMember(id: id, host: "host", process: 1, version: "1", since: fixture.clock.now),
                    queue: queue,
                    clock: SystemQueueClock(),
                    metrics: RelayMetrics(factory: PrometheusMetrics()),
                    logger: FleetFixture.logger,
                    timing: timing
                )
            }
            let running = fleets.map { fleet in Task { await fleet.run() } }
            let isThere = try await eventually { fleets.allSatisfy { $0.members.count == 2 } }
            #expect(isThere)
            running[0].cancel()
            await running[0].value
            let hasLeft = try await eventually {
                fleets[1].members.map(\.id) == ["b"] && fleets[1].members[0].postsWebhooks
            }
            #expect(hasLeft)
            running[1].cancel()
            await running[1].value
        }
    }

    @Test("With an engine for one process, nothing is stored, and the relay posts to the webhooks at once")
    func alone() async throws {
        try await FleetFixture.run { fixture in
            let fleet = Fleet(
                member: FleetMember(id: "a", host: "host", process: 1, version: "1", since: fixture.clock.now),
                queue: fixture.base,
                clock: fixture.clock,
                metrics: RelayMetrics(factory: PrometheusMetrics()),
                logger: FleetFixture.logger
            )
            #expect(fleet.members.map(\.postsWebhooks) == [true])
            await fleet.beat()
            let values = try await fixture.base.values(withPrefix: "")
            #expect(values == [:])
            #expect(fleet.members.map(\.postsWebhooks) == [true])
        }
    }
}
