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

    /// Two relays that post to a receiver. The first one is older.
    private struct Pair {
        let (a, b): (FleetFixture.Member, FleetFixture.Member)
        let (first, second): (Webhooks, Webhooks)
        let tasks: [Task<Void, Never>]

        init(_ fixture: FleetFixture, _ receiver: WebhookReceiver) async {
            let (queueA, queueB) = (SharedQueue(fixture.base), SharedQueue(fixture.base))
            let first = FleetWebhooksTests.webhooks(receiver, queueA)
            let second = FleetWebhooksTests.webhooks(receiver, queueB)
            self.a = fixture.relay("a", queue: queueA) { first.set(isPosting: $1.postsWebhooks) }
            await fixture.pass(1, self.a)
            self.b = fixture.relay("b", queue: queueB) { second.set(isPosting: $1.postsWebhooks) }
            (self.first, self.second) = (first, second)
            await fixture.pass(10, self.a, self.b)
            self.tasks = [first, second].map { webhooks in Task { await webhooks.run() } }
        }

        func end() async {
            for task in self.tasks {
                task.cancel()
                await task.value
            }
        }
    }

    private static func wait(_ count: Int, _ receiver: WebhookReceiver) async throws {
        let isThere = try await eventually { Set(receiver.deliveries.flatMap(\.cursors)).count >= count }
        #expect(isThere, "\(Set(receiver.deliveries.flatMap(\.cursors)).count) of \(count) outcomes came")
    }

    @Test("The oldest relay posts each outcome once; after it was killed, the other goes on where it was")
    func postsOnce() async throws {
        try await FleetFixture.run { fixture in
            try await WebhookReceiver.run { receiver in
                let pair = await Pair(fixture, receiver)
                try await Self.settle(95, fixture)
                try await Self.wait(95, receiver)
                #expect(receiver.deliveries.count == Set(receiver.deliveries.map(\.id)).count)
                #expect(pair.first.isRunning && !pair.second.isRunning)
                // The relay that does not post shows what is stored.
                let position = receiver.deliveries.flatMap(\.cursors).max().map { Int64($0) }
                let isShown = try await eventually { await pair.second.statuses().first?.position == position }
                #expect(isShown)

                pair.a.queue.kill()
                try await Self.settle(95, fixture)
                await fixture.pass(15, pair.a, pair.b)
                #expect(!pair.second.isRunning)
                await fixture.pass(10, pair.a, pair.b)
                try await Self.wait(190, receiver)
                #expect(pair.second.isRunning)
                // A kill repeats at most the last request, with the same id.
                #expect(receiver.deliveries.count - Set(receiver.deliveries.map(\.id)).count <= 1)
                await pair.end()
            }
        }
    }

    @Test("A relay that leaves stops posting at once, and the next oldest goes on after its next heartbeat")
    func leaves() async throws {
        try await FleetFixture.run { fixture in
            try await WebhookReceiver.run { receiver in
                let pair = await Pair(fixture, receiver)
                await pair.a.fleet.leave()
                let hasStopped = try await eventually { !pair.first.isRunning }
                #expect(hasStopped)
                await fixture.pass(5, pair.b)
                try await Self.settle(20, fixture)
                try await Self.wait(20, receiver)
                #expect(pair.second.isRunning && !pair.first.isRunning)
                await pair.end()
            }
        }
    }

    @Test("A relay that does not notice that another one posts cannot change the positions of its successor")
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
                let isWritten = try await late.write(WebhookPosition(position: 7))
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

    @Test("A relay that does not post skips a request, and the one that posts goes on behind it")
    func skips() async throws {
        try await FleetFixture.run { fixture in
            try await WebhookReceiver.run { receiver in
                receiver.respond { _, delivery in .status(delivery.cursors.contains(3) ? 422 : 200) }
                let pair = await Pair(fixture, receiver)
                try await Self.settle(30, fixture)
                let isFailing = try await eventually { (await pair.first.statuses().first?.failures ?? 0) >= 2 }
                #expect(isFailing && !pair.second.isRunning)
                let request = try #require(await pair.second.statuses().first?.request)
                #expect(request == (await pair.first.statuses().first?.request))
                let unknown = try await pair.second.skip("crm", "crm-4")
                #expect(unknown == nil)
                let skipped = try await pair.second.skip("crm", request.id)
                #expect(skipped == request.outcomes)
                let isStored = try await Self.isStored(fixture, #"{"position":30}"#)
                #expect(isStored)
                let posted = Set(receiver.deliveries.filter { $0.id != request.id }.flatMap(\.cursors))
                #expect(posted == Set(request.outcomes + 1...30))
                await pair.end()
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
