import APNSModel
import PushQueue
import PushQueueConformance
import Synchronization
import Testing

@testable import APNSRelay

/// What keeps pushes from being delivered, and since when.
struct DeliveryWatchTests {
    private static let fern = DeliveryProblem.AppEnvironment(app: "fern", environment: "production")
    private static let moss = DeliveryProblem.AppEnvironment(app: "moss", environment: "production")

    private let clock = ManualQueueClock(QueueTime(secondsSince1970: 1_800_000_000))
    private let storage = StorageWatch()
    private let failures = Failures()
    private let queue = FeedQueue()
    private let watch: DeliveryWatch

    private final class Failures: Sendable {
        let value = Mutex<[DeliveryProblem.AppEnvironment: DeliveryFailure]>([:])
        let webhooks = Mutex<[WebhookStatus]>([])
        let batches = Mutex<Set<APNSID>>([])
    }

    init() {
        self.watch = DeliveryWatch(
            queue: self.queue,
            clock: self.clock,
            storage: self.storage,
            totals: { RelayTotals() },
            failures: { [failures] in failures.value.withLock { $0 } },
            webhooks: { [failures] in failures.webhooks.withLock { $0 } },
            unreadableBatches: { [failures] in failures.batches.withLock { $0 } }
        )
    }

    private func set(_ failures: [DeliveryProblem.AppEnvironment: DeliveryFailure]) async {
        self.failures.value.withLock { $0 = failures }
        await self.watch.update()
    }

    private static let noKey = DeliveryFailure(cause: .credential, message: "no key")

    @Test("A problem has the time at which it was first seen, and one entry for all apps with the same message")
    func since() async {
        await self.set([:])
        #expect(self.watch.problems.isEmpty)
        let start = self.clock.now
        await self.set([Self.fern: Self.noKey])
        self.clock.advance(by: .seconds(10))
        await self.set([Self.fern: Self.noKey, Self.moss: Self.noKey])
        let both = DeliveryProblem(cause: .credential, apps: [Self.fern, Self.moss], message: "no key", since: start)
        #expect(self.watch.problems == [both])
        await self.set([Self.moss: DeliveryFailure(cause: .apns, message: "away")])
        #expect(self.watch.problems.map(\.cause) == [.apns])
        #expect(self.watch.problems.first?.since == self.clock.now)
        await self.set([:])
        #expect(self.watch.problems.isEmpty)
    }

    @Test("The queue's error is a problem until a call succeeds")
    func storageFailure() async {
        let error = QueueError(code: .unavailable, message: "the database is away")
        _ = try? await self.storage.observing { () throws(QueueError) in throw error }
        await self.watch.update()
        #expect(self.watch.problems.map(\.cause) == [.storage])
        #expect(self.watch.problems.first?.message == error.message)
        _ = try? await self.storage.observing { () throws(QueueError) in }
        await self.watch.update()
        #expect(self.watch.problems.isEmpty)
    }

    @Test("A change that fails is a problem until it succeeds, although reads and other changes do")
    func failingWrites() async {
        self.storage.note("claim", QueueError(code: .unavailable, message: "the table is locked"))
        _ = try? await self.storage.observing { () throws(QueueError) in }
        self.storage.note("settle", nil)
        await self.watch.update()
        #expect(self.watch.problems.map(\.cause) == [.storage])
        #expect(self.watch.problems.first?.message == "the table is locked")
        self.storage.note("claim", nil)
        await self.watch.update()
        #expect(self.watch.problems.isEmpty)
        // A call that was given up, and was not needed again.
        let error = QueueError(code: .unusable, message: "the role may not use the queue")
        self.storage.note("park", error, at: .now.advanced(by: .zero - StorageWatch.memory))
        await self.watch.update()
        #expect(self.watch.problems.isEmpty)
    }

    @Test("A disk without room for new pushes is a problem of its own")
    func disk() async {
        let error = QueueError(code: .unavailable, message: "the disk is nearly full")
        self.queue.roomError.withLock { $0 = error }
        await self.watch.update()
        #expect(self.watch.problems.map(\.cause) == [.disk])
        #expect(self.watch.problems.first?.message == error.message)
        #expect(self.watch.problems.first?.effect == "New pushes are refused.")
        self.queue.roomError.withLock { $0 = nil }
        await self.watch.update()
        #expect(self.watch.problems.isEmpty)
    }

    @Test("A call that hangs is a problem, too")
    func hangingStorage() async throws {
        let (releases, release) = AsyncStream.makeStream(of: Void.self)
        let storage = self.storage
        let call = Task {
            try await storage.observing { () async throws(QueueError) in
                for await _ in releases { return }
            }
        }
        try await Patience.wait(for: "the call is a problem") {
            await self.watch.update()
            return self.watch.problems.first?.message.contains("has not responded") == true
        }
        release.yield()
        try await call.value
        await self.watch.update()
        #expect(self.watch.problems.isEmpty)
    }

    @Test("A webhook whose receiver has not acknowledged a request for an hour is a problem of no push")
    func stuckWebhook() async throws {
        let start = self.clock.now
        let request = WebhookStatus.Request(id: "crm-7", outcomes: 3, since: start, oldestOutcome: start)
        let webhook = WebhookStatus(name: "crm", url: "", position: 6, failures: 20, request: request)
        self.failures.webhooks.withLock { $0 = [webhook] }
        await self.watch.updateWebhooks()
        await self.watch.update()
        #expect(self.watch.problems.isEmpty)
        // A corrected clock makes no request older.
        self.clock.jump(by: .seconds(7_200))
        await self.watch.update()
        #expect(self.watch.problems.isEmpty)
        self.clock.advance(by: .seconds(3_600))
        await self.watch.update()
        let problem = try #require(self.watch.problems.first)
        #expect(problem.cause == .webhook && problem.message.contains("webhook crm has not acknowledged request crm-7"))
        let route = Route(app: "fern", environment: "production", lane: .bulk, caller: "crm")
        #expect(!problem.affects(route))
        self.failures.webhooks.withLock { $0[0].request = nil }
        await self.watch.updateWebhooks()
        await self.watch.update()
        #expect(self.watch.problems.isEmpty)
    }

    @Test("A webhook whose stored position cannot be read is a problem at once")
    func unreadableWebhook() async {
        var machine = WebhookMachine(name: "crm")
        machine.cannotRestore("the position of crm cannot be read")
        let webhook = machine.status(url: "")
        self.failures.webhooks.withLock { $0 = [webhook] }
        await self.watch.updateWebhooks()
        await self.watch.update()
        #expect(self.watch.problems.map(\.cause) == [.webhook])
        #expect(self.watch.problems.first?.message == "the position of crm cannot be read")
    }

    @Test("A batch that cannot be read is a problem of its own pushes")
    func unreadableBatch() async {
        let batches = [APNSID.random(), .random()]
        self.failures.batches.withLock { $0 = Set(batches) }
        await self.watch.update()
        #expect(self.watch.problems.map(\.cause) == [.batch, .batch])
        for batch in batches {
            var route = Route(app: "fern", environment: "production", lane: .bulk, caller: "shop", batch: batch)
            #expect(self.watch.problems.count { $0.affects(route) && $0.message.contains("\(batch)") } == 1)
            route.batch = nil
            #expect(self.watch.problems.allSatisfy { !$0.affects(route) })
        }
        self.failures.batches.withLock { $0 = [] }
        await self.watch.update()
        #expect(self.watch.problems.isEmpty)
    }

    @Test("The counters of the last five minutes are kept, one of five seconds")
    func history() async {
        for _ in 0..<1_000 {
            await self.watch.update()
            self.clock.advance(by: .seconds(1))
        }
        let history = self.watch.history
        #expect(history.count == DeliveryWatch.samples)
        #expect(zip(history, history.dropFirst()).allSatisfy { $0.time.duration(to: $1.time) == .seconds(5) })
    }
}
