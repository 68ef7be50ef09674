import APNSModel
import PushQueue
import PushQueueConformance
import SupervisedPool
import Testing

@testable import APNSRelay

/// Webhooks of relays that share a queue.
struct FleetWebhooksTests {
    private static func webhooks(_ receiver: WebhookReceiver, _ queue: any PushQueue) -> Webhooks {
        var retry = WebhookMachine.Retry()
        retry.delays = Backoff(minimum: .milliseconds(10), maximum: .milliseconds(10))
        retry.storageDelay = .milliseconds(10)
        retry.poll = .milliseconds(20)
        return Webhooks(
            [
                WebhookSettings(
                    name: "crm",
                    url: receiver.url,
                    secrets: [WebhookReceiver.secret],
                    batch: 10,
                    timeout: Patience.limit
                )
            ],
            queue: queue,
            metrics: RelayMetrics(factory: PrometheusMetrics()),
            clock: SystemQueueClock(),
            logger: FleetFixture.logger,
            retry: retry
        )
    }

    /// Stores outcomes, as any relay does.
    private static func settle(_ count: Int, _ fixture: FleetFixture) async throws {
        let route = Route(app: "fern", environment: "production", lane: .bulk, caller: "crm")
        let now = SystemQueueClock().now
        let pushes = try (0..<count).map { _ in
            NewPush(
                id: .random(),
                route: route,
                token: try DeviceToken(String(repeating: "a1", count: 32)),
                push: try PreparedPush(topic: "com.example.fern", pushType: .alert, payload: Array("{}".utf8)),
                notBefore: now,
                deadline: now.advanced(by: .seconds(600))
            )
        }
        _ = try await fixture.base.enqueue(pushes, isPartial: false)
        let claimed = try await fixture.base.claim(route, limit: count, lease: .seconds(60))
        _ = try await fixture.base.markWritten(claimed.map(\.claim), lease: .seconds(60))
        let settlements = claimed.map { Settlement(claim: $0.claim, outcome: .accepted(Receipt(apnsID: $0.claim.id))) }
        _ = try await fixture.base.settle(settlements)
    }

    private static func start(_ relay: FleetFixture.Member, _ webhooks: Webhooks) async throws -> Task<Void, Never> {
        let task = Task { await relay.fleet.perform(.webhooks) { await webhooks.run() } }
        let isThere = try await eventually { relay.fleet.duties[.webhooks] != nil }
        #expect(isThere)
        return task
    }

    private static func wait(_ count: Int, _ receiver: WebhookReceiver) async throws {
        let isThere = try await eventually { Set(receiver.deliveries.flatMap(\.cursors)).count >= count }
        #expect(isThere, "\(Set(receiver.deliveries.flatMap(\.cursors)).count) of \(count) outcomes came")
    }

    @Test("Two relays post each outcome once; after a kill, the other goes on where the first was")
    func postsOnce() async throws {
        try await FleetFixture.run { fixture in
            try await WebhookReceiver.run { receiver in
                let (a, b) = (fixture.relay("a"), fixture.relay("b"))
                let (first, second) = (Self.webhooks(receiver, a.queue), Self.webhooks(receiver, b.queue))
                let tasks = [try await Self.start(a, first), try await Self.start(b, second)]
                await fixture.pass(10, a, b)
                try await Self.settle(95, fixture)
                try await Self.wait(95, receiver)
                #expect(receiver.deliveries.count == Set(receiver.deliveries.map(\.id)).count)
                #expect(first.isRunning && !second.isRunning)
                // The relay without the duty shows what is stored.
                let position = receiver.deliveries.flatMap(\.cursors).max().map { Int64($0) }
                let isShown = try await eventually { await second.storedStatuses().first?.position == position }
                #expect(isShown)

                a.queue.kill()
                try await Self.settle(95, fixture)
                await fixture.pass(25, a, b)
                try await Self.wait(190, receiver)
                #expect(second.isRunning)
                // A kill repeats at most the last request, with the same id.
                #expect(receiver.deliveries.count - Set(receiver.deliveries.map(\.id)).count <= 1)
                for task in tasks {
                    task.cancel()
                    await task.value
                }
            }
        }
    }

    @Test("A relay that lost its duty without noticing cannot change the positions of its successor")
    func fenced() async throws {
        try await FleetFixture.run { fixture in
            try await WebhookReceiver.run { receiver in
                let (a, b) = (SharedQueue(fixture.base), SharedQueue(fixture.base))
                let (first, second) = (Self.webhooks(receiver, a), Self.webhooks(receiver, b))
                // As if the first were stopped with SIGSTOP.
                receiver.respond { _, _ in .hang }
                let stopped = Task { await first.run() }
                try await Self.settle(20, fixture)
                try await receiver.waitFor(1)
                receiver.respond { _, _ in .status(200) }
                let running = Task { await second.run() }
                try await Self.wait(20, receiver)
                let isStored = try await Self.isStored(fixture, #"{"position":20}"#)
                #expect(isStored)
                // The store of the first knows the position before that.
                var late = WebhookStore(a, name: "crm")
                _ = try await late.read()
                try await Self.settle(10, fixture)
                let isMoved = try await Self.isStored(fixture, #"{"position":30}"#)
                #expect(isMoved)
                let isWritten = try await late.write(.position(WebhookPosition(position: 7)))
                #expect(!isWritten)
                let isSame = try await Self.isStored(fixture, #"{"position":30}"#)
                #expect(isSame)
                for task in [stopped, running] {
                    task.cancel()
                    await task.value
                }
            }
        }
    }

    @Test("Two relays that both post at the same time lose no outcome")
    func bothPost() async throws {
        try await FleetFixture.run { fixture in
            try await WebhookReceiver.run { receiver in
                let both = [Self.webhooks(receiver, fixture.base), Self.webhooks(receiver, fixture.base)]
                let tasks = both.map { webhooks in Task { await webhooks.run() } }
                for _ in 0..<10 {
                    try await Self.settle(37, fixture)
                    for webhooks in both { webhooks.signal() }
                }
                try await Self.wait(370, receiver)
                let isStored = try await Self.isStored(fixture, #"{"position":370}"#)
                #expect(isStored)
                for task in tasks {
                    task.cancel()
                    await task.value
                }
            }
        }
    }

    @Test("A relay that does not post takes decisions about parked requests", arguments: [true, false])
    func decisions(retries: Bool) async throws {
        try await FleetFixture.run { fixture in
            try await WebhookReceiver.run { receiver in
                receiver.respond { _, delivery in .status(delivery.cursors.contains(3) ? 422 : 200) }
                let (a, b) = (fixture.relay("a"), fixture.relay("b"))
                let (first, second) = (Self.webhooks(receiver, a.queue), Self.webhooks(receiver, b.queue))
                let tasks = [try await Self.start(a, first), try await Self.start(b, second)]
                await fixture.pass(10, a, b)
                try await Self.settle(10, fixture)
                let isParked = try await eventually { first.statuses().first?.parked.count == 1 }
                #expect(isParked && !second.isRunning)
                let id = try #require(first.statuses().first?.parked.first?.id)
                #expect(id.hasPrefix("crm-3-"))
                receiver.respond { _, _ in .status(200) }
                let unknown = try await second.retry("crm", "crm-4")
                #expect(!unknown)
                let isTaken = try await retries ? second.retry("crm", id) : second.drop("crm", id)
                #expect(isTaken)
                let isDone = try await eventually { first.statuses().first?.parked.isEmpty == true }
                #expect(isDone)
                #expect(receiver.deliveries.contains { $0.cursors == [3] && $0.id == id })
                let taken = receiver.deliveries.filter { $0.cursors == [3] }.count
                #expect(taken == (retries ? 2 : 1))
                let areRemoved = try await eventually {
                    try await fixture.base.values(withPrefix: "webhook-decision/").isEmpty
                }
                #expect(areRemoved)
                for task in tasks {
                    task.cancel()
                    await task.value
                }
            }
        }
    }

    private static func isStored(_ fixture: FleetFixture, _ position: String) async throws -> Bool {
        try await eventually {
            let value = try await fixture.base.value(forKey: "webhook/crm")
            return value.map { String(decoding: $0, as: UTF8.self) } == position
        }
    }
}
