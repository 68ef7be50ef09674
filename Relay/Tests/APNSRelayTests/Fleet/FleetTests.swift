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

    @Test("A duty has one holder at a time, through a leave and a kill", .timeLimit(.minutes(5)))
    func oneHolder() async throws {
        try await FleetFixture.run { fixture in
            let (a, b, c) = (fixture.relay("a"), fixture.relay("b"), fixture.relay("c"))
            let runs = DutyRuns()
            let tasks = [runs.start(a, "a"), runs.start(b, "b"), runs.start(c, "c")]
            for relay in [a, b, c] { _ = try await eventually { relay.fleet.duties[.webhooks] != nil } }
            await fixture.pass(10, a, b, c)
            try await runs.expect(["a"])
            await a.fleet.leave()
            try await runs.expect([])
            await fixture.pass(5, b, c)
            try await runs.expect(["b"])
            // The process is killed, so nobody gives the duty up for it.
            b.queue.kill()
            tasks[1].cancel()
            await tasks[1].value
            await fixture.pass(15, c)
            try await runs.expect([])
            await fixture.pass(10, c)
            try await runs.expect(["c"])
            #expect(runs.most == 1)
            for task in tasks {
                task.cancel()
                await task.value
            }
            #expect(runs.running == [])
        }
    }

    @Test("A relay whose storage fails gives its duties up before another one has them", .timeLimit(.minutes(5)))
    func storageFails() async throws {
        try await FleetFixture.run { fixture in
            let (a, b) = (fixture.relay("a"), fixture.relay("b"))
            let runs = DutyRuns()
            let tasks = [runs.start(a, "a"), runs.start(b, "b")]
            for relay in [a, b] { _ = try await eventually { relay.fleet.duties[.webhooks] != nil } }
            await fixture.pass(10, a, b)
            try await runs.expect(["a"])
            a.queue.disk.fill(for: ["setValue"])
            await fixture.pass(19, a, b)
            #expect(runs.running == ["a"])
            #expect(a.members == ["a", "b"])
            // The other one could take the duty in the same second.
            await fixture.pass(1, a)
            try await runs.expect([])
            await fixture.pass(5, a, b)
            try await runs.expect(["b"])
            a.queue.disk.clear()
            await fixture.pass(10, a, b)
            try await runs.expect(["b"])
            #expect(a.members == ["a", "b"] && b.members == ["b", "a"])
            #expect(runs.most == 1)
            for task in tasks {
                task.cancel()
                await task.value
            }
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
                fleets[1].members.map(\.id) == ["b"] && fleets[1].duties[.leader] == true
            }
            #expect(hasLeft)
            running[1].cancel()
            await running[1].value
        }
    }

    @Test("With an engine for one process, nothing is stored, and duties begin at once", .timeLimit(.minutes(5)))
    func alone() async throws {
        try await FleetFixture.run { fixture in
            let fleet = Fleet(
                member: FleetMember(id: "a", host: "host", process: 1, version: "1", since: fixture.clock.now),
                queue: fixture.base,
                clock: fixture.clock,
                metrics: RelayMetrics(factory: PrometheusMetrics()),
                logger: FleetFixture.logger
            )
            let (starts, start) = AsyncStream.makeStream(of: Void.self)
            let task = Task { await fleet.perform(.webhooks) { start.yield() } }
            for await _ in starts { break }
            await fleet.beat()
            let values = try await fixture.base.values(withPrefix: "")
            #expect(values == [:])
            #expect(fleet.members.map(\.duties) == [["leader", "webhooks"]])
            task.cancel()
            await task.value
        }
    }
}
