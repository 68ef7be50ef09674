import Logging
import PostgresPushQueue
import PostgresTestServer
import PushQueue
import PushQueueConformance
import Synchronization
import Testing

@testable import APNSRelay

/// The rate of a caller that several relays share. Each rate is 100 pushes a second, and its bucket holds 1,000.
struct SharedRateTests {
    /// Counts the calls of one relay, and lets them fail.
    private final class CountingQueue: WrappingPushQueue {
        let base: any PushQueue
        let calls = Mutex<[String: Int]>([:])
        let error = Mutex<QueueError?>(nil)

        init(_ base: any PushQueue) {
            self.base = base
        }

        var isShared: Bool { true }

        func call<Value: Sendable>(
            _ name: String,
            _ body: () async throws(QueueError) -> Value
        ) async throws(QueueError) -> Value {
            self.calls.withLock { $0[name, default: 0] += 1 }
            if name == "exchangeValue", let error = self.error.withLock({ $0 }) { throw error }
            return try await body()
        }
    }

    private struct RelayWithRate: Sendable {
        let queue: CountingQueue
        let rate: SharedRate

        init(_ base: any PushQueue, _ clock: any QueueClock) {
            self.queue = CountingQueue(base)
            self.rate = SharedRate(rate: 100, caller: "shop", queue: self.queue, clock: clock)
        }

        func available() async throws -> Int { try await self.rate.available() }
        func take(_ count: Int) async throws -> Duration? { try await self.rate.take(count) }

        /// Takes single pushes until one is refused.
        func takeAll() async throws -> Int {
            var count = 0
            while try await self.rate.take(1) == nil { count += 1 }
            return count
        }
    }

    private static let server = Result { try PostgresServer() }

    /// Runs a test with two processes that use one database.
    private static func withDatabase(
        _ body: (any PushQueue, any PushQueue, ManualQueueClock) async throws -> Void
    ) async throws {
        let server = try Self.server.get()
        let database = try server.createDatabase()
        var options = PostgresPushQueue.Options(connection: try ConnectionSettings(server.url(database)))
        options.connections = 2
        options.timeout = Patience.limit
        let first = try await PostgresPushQueue.open(options, logger: FleetFixture.logger)
        let second = try await PostgresPushQueue.open(options, logger: FleetFixture.logger)
        try await body(first, second, ManualQueueClock(QueueTime(secondsSince1970: 1_800_000_000)))
        await first.close()
        await second.close()
    }

    @Test("A caller that uses one of two relays has its whole rate", .timeLimit(.minutes(5)))
    func one() async throws {
        try await Self.withDatabase { first, second, clock in
            let (used, idle) = (RelayWithRate(first, clock), RelayWithRate(second, clock))
            #expect(try await used.takeAll() + idle.takeAll() == 1_000)
            let before = used.queue.calls.withLock { $0["exchangeValue"] ?? 0 }
            var taken = 0
            for _ in 0..<50 {
                clock.advance(by: .milliseconds(100))
                taken += try await used.takeAll()
            }
            #expect(taken == 500)
            #expect(used.queue.calls.withLock { $0["exchangeValue"] ?? 0 } - before == 50)
        }
    }

    @Test("A caller that uses two relays at once does not exceed its rate", .timeLimit(.minutes(5)))
    func both() async throws {
        try await Self.withDatabase { first, second, clock in
            let relays = [RelayWithRate(first, clock), RelayWithRate(second, clock)]
            var taken = 0
            for step in 0...50 {
                if step > 0 { clock.advance(by: .milliseconds(100)) }
                taken += try await withThrowingTaskGroup(of: Int.self) { group in
                    for relay in relays + relays { group.addTask { try await relay.takeAll() } }
                    return try await group.reduce(0, +)
                }
            }
            #expect((1_495...1_501).contains(taken), "\(taken)")
        }
    }

    @Test("Requests in a row change the value once for the pushes of 100 ms")
    func changes() async throws {
        try await FleetFixture.run { fixture in
            let relay = RelayWithRate(fixture.base, fixture.clock)
            for _ in 0..<110 {
                let wait = try await relay.take(1)
                #expect(wait == nil)
            }
            #expect(relay.queue.calls.withLock { $0["exchangeValue"] } == 10)
            #expect(relay.queue.calls.withLock { $0["value"] } == 1)
        }
    }

    @Test("Refused requests read the value ten times a second")
    func refusals() async throws {
        try await FleetFixture.run { fixture in
            let relay = RelayWithRate(fixture.base, fixture.clock)
            let admitted = try await relay.take(2_000)
            #expect(admitted == nil)
            let before = relay.queue.calls.withLock { $0 }
            for _ in 0..<100 {
                // The debt is 1,000 pushes.
                #expect(try await relay.take(1) ?? .zero > .seconds(9))
                fixture.clock.advance(by: .milliseconds(10))
            }
            let after = relay.queue.calls.withLock { $0 }
            #expect(after["exchangeValue"] == before["exchangeValue"])
            #expect((after["value"] ?? 0) - (before["value"] ?? 0) <= 11)
        }
    }

    @Test("Pushes that were given back at one relay can be taken at another one", .timeLimit(.minutes(5)))
    func givenBack() async throws {
        try await FleetFixture.run { fixture in
            let first = RelayWithRate(fixture.base, fixture.clock)
            let second = RelayWithRate(fixture.base, fixture.clock)
            #expect(try await first.take(1_500) == nil)
            #expect(try await second.take(1) != nil)
            first.rate.giveBack(1_500)
            try await Patience.wait(for: "the pushes are given back") { try await second.available() >= 980 }
            fixture.clock.advance(by: .milliseconds(100))
            #expect(try await second.take(900) == nil)
            #expect(try await first.takeAll() + second.takeAll() <= 110)
        }
    }

    @Test("A relay whose clock is behind has its part, and the rate is not exceeded")
    func clockBehind() async throws {
        try await FleetFixture.run { fixture in
            let late = ManualQueueClock(fixture.clock.now.advanced(by: .seconds(-60)))
            let (ahead, behind) = (RelayWithRate(fixture.base, fixture.clock), RelayWithRate(fixture.base, late))
            #expect(try await ahead.takeAll() == 1_000)
            #expect(try await behind.takeAll() == 0)
            var taken = 0
            for step in 0..<100 {
                fixture.clock.advance(by: .milliseconds(100))
                late.advance(by: .milliseconds(100))
                // For half of the time, only the relay whose clock is behind is used.
                if step >= 50 { taken += try await ahead.takeAll() }
                taken += try await behind.takeAll()
            }
            #expect((980...1_001).contains(taken), "\(taken)")
        }
    }

    @Test(
        "The limits of relays with one queue share the rate of a caller, and those of a relay with a file do not",
        .timeLimit(.minutes(5))
    )
    func limits() async throws {
        try await FleetFixture.run { fixture in
            let settings = RelayServer.settings { $0.callers[0].pushesPerSecond = 100 }
            let shop = settings.callers[0]
            let queues = [SharedQueue(fixture.base), SharedQueue(fixture.base)]
            let relays = queues.map { CallerLimits(settings, queue: $0, clock: fixture.clock) }
            try await relays[0].take(1_500, shop)
            #expect(await Self.code(relays[1], 1, shop) == .rateLimited)
            // Pushes that were not stored, as after a conflict.
            relays[0].giveBack(1_500, shop)
            try await Patience.wait(for: "the pushes are given back") {
                fixture.clock.advance(by: .milliseconds(1))
                return await Self.code(relays[1], 1, shop) == nil
            }
            #expect(
                try await relays[1].callers(fixture.base.counts()).first { $0.name == "shop" }?.available ?? 0 > 900
            )
            queues[1].kill()
            #expect(await Self.code(relays[1], 100, shop) == .shuttingDown)
            let alone = CallerLimits(settings, queue: fixture.base, clock: fixture.clock)
            try await alone.take(1_000, shop)
            #expect(await Self.code(alone, 1, shop) == .rateLimited)
            #expect(try await fixture.base.values(withPrefix: "rate/").count == 1)
        }
    }

    private static func code(_ limits: CallerLimits, _ count: Int, _ caller: Caller) async -> APIError.Code? {
        do throws(APIError) {
            try await limits.take(count, caller)
            return nil
        } catch {
            return error.code
        }
    }

    @Test("If the queue cannot be used, a request fails, and nothing is taken")
    func failure() async throws {
        try await FleetFixture.run { fixture in
            let relay = RelayWithRate(fixture.base, fixture.clock)
            for code in [QueueError.Code.unavailable, .undecided] {
                relay.queue.error.withLock { $0 = QueueError(code: code, message: "away") }
                let error = await #expect(throws: QueueError.self) { try await relay.take(1) }
                #expect(error?.code == .unavailable)
            }
            relay.queue.error.withLock { $0 = nil }
            let taken = try await relay.takeAll()
            #expect(taken == 1_000)
        }
    }
}
