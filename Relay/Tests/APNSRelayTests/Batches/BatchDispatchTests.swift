import APNSModel
import PushQueue
import PushQueueConformance
import Synchronization
import Testing

@testable import APNSRelay

struct BatchDispatchTests {
    /// Stores a complete batch.
    static func store(
        _ fixture: DispatchFixture,
        devices: Int,
        payload: String = #"{"aps":{"alert":"Hi {{n}}"}}"#,
        _ change: (inout BatchState) -> Void = { _ in }
    ) async throws -> Batch {
        let batch = Self.batch(fixture, payload: payload)
        var state = BatchState()
        state.isComplete = true
        change(&state)
        _ = try await BatchStore(queue: fixture.queue).create(batch, state)
        _ = try await fixture.queue.enqueue(try Self.pushes(batch, 1...devices), isPartial: false)
        fixture.dispatcher.signal()
        return batch
    }

    private static func batch(_ fixture: DispatchFixture, payload: String, key: String? = nil) -> Batch {
        let now = fixture.context.clock.now
        return Batch(
            id: Batch.newID(at: now),
            caller: "test",
            app: "fern",
            environment: "production",
            topic: "com.a",
            pushType: "alert",
            payload: payload,
            values: "{}",
            resendsUnknown: false,
            createdAt: now.millisecondsSince1970,
            notBefore: now.millisecondsSince1970,
            deadline: now.advanced(by: .seconds(3_600)).millisecondsSince1970,
            idempotencyKey: key,
            digest: []
        )
    }

    private static func pushes(_ batch: Batch, _ numbers: ClosedRange<Int>) throws -> [NewPush] {
        let intake = try BatchIntake(batch)
        return try numbers.map { number in
            try Array(#"{"token":"abcd","values":{"n":\#(number)}}"#.utf8).withUnsafeBufferPointer { text in
                try intake.push(text, number: number)
            }
        }
    }

    private static func accepting() -> ScriptedSender {
        ScriptedSender { id, _ in ScriptedSender.accept(id) }
    }

    @Test("A batch whose relay died while it was created is created by the repetition of its request, once")
    func diedWhileCreating() async throws {
        let fixture = try await DispatchFixture { _ in Self.accepting() }
        let store = BatchStore(queue: fixture.queue)
        let dead = Self.batch(fixture, payload: "{}", key: "sale")
        // Its key and its object were stored, and its state was not.
        #expect(try await store.create(dead, BatchState()) == nil)
        for key in try await fixture.queue.values(withPrefix: "batch-state/").map(\.key) {
            try await fixture.queue.setValue(nil, forKey: key)
        }
        #expect(try await store.states().isEmpty)
        let repeated = Self.batch(fixture, payload: "{}", key: "sale")
        #expect(try await store.create(repeated, BatchState()) == nil)
        #expect(try await store.states().keys.map(\.self) == [repeated.id])
        #expect(try await store.batch(dead.id) == nil)
        #expect(try await store.create(Self.batch(fixture, payload: "{}", key: "sale"), BatchState()) == repeated.id)
        try await fixture.close()
    }

    @Test("Each device gets the payload with its values", .timeLimit(.minutes(5)))
    func payloads() async throws {
        let sender = Self.accepting()
        let fixture = try await DispatchFixture { _ in sender }
        try await fixture.running {
            let batch = try await Self.store(fixture, devices: 700)
            try await fixture.expect { $0.unsettled == 0 }
            #expect(Set(sender.payloads) == Set((1...700).map { #"{"aps":{"alert":"Hi \#($0)"}}"# }))
            #expect(sender.payloads.count == 700)
            #expect(try await fixture.queue.batchCounts(of: [batch.route]).first?.outcomes == [.accepted: 700])
        }
    }

    @Test("A paused batch is not sent until it is resumed, and others are", .timeLimit(.minutes(5)))
    func pause() async throws {
        let sender = Self.accepting()
        let fixture = try await DispatchFixture { _ in sender }
        try await fixture.running {
            let held = try await Self.store(fixture, devices: 300) { $0.isPaused = true }
            let receiving = try await Self.store(fixture, devices: 300) { $0.isComplete = false }
            _ = try await Self.store(fixture, devices: 300)
            try await fixture.store(100)
            try await fixture.expect { _ in fixture.metrics.totals.accepted == 400 }
            let counts = try await fixture.queue.counts()
            #expect(counts.queued == 600 && counts.unsettled == 600)
            let store = BatchStore(queue: fixture.queue)
            try await store.change(held.id) { $0.isPaused = false }
            try await store.change(receiving.id) { $0.isComplete = true }
            try await fixture.expect { $0.unsettled == 0 }
        }
    }

    @Test("A batch that is paused while it is sent stops", .timeLimit(.minutes(5)))
    func pauseInTheMiddle() async throws {
        let barrier = Barrier()
        let sender = ScriptedSender { id, count in
            if count > 100 { await barrier.wait() }
            return ScriptedSender.accept(id)
        }
        var settings = DispatchSettings()
        settings.maxInFlight = 50
        let fixture = try await DispatchFixture(settings: settings) { _ in sender }
        try await fixture.running {
            let batch = try await Self.store(fixture, devices: 1_000)
            try await fixture.expect { _ in sender.delivered.count > 100 }
            try await BatchStore(queue: fixture.queue).change(batch.id) { $0.isPaused = true }
            fixture.dispatcher.signal()
            try await fixture.expect { _ in fixture.context.batches.mode(of: batch.route) == .hold }
            barrier.open()
            // What was in flight ends, and no more is sent.
            try await fixture.expect { $0.claimed + $0.written == 0 }
            #expect(try await fixture.queue.counts().queued > 800)
            try await BatchStore(queue: fixture.queue).change(batch.id) { $0.isPaused = false }
            try await fixture.expect { $0.unsettled == 0 }
            #expect(Set(sender.delivered).count == 1_000 && sender.delivered.count == 1_000)
        }
    }

    @Test("A cancelled batch ends, and the push in flight keeps its outcome", .timeLimit(.minutes(5)))
    func cancel() async throws {
        let barrier = Barrier()
        let sender = ScriptedSender { id, _ in
            await barrier.wait()
            return ScriptedSender.accept(id)
        }
        var settings = DispatchSettings()
        settings.maxInFlight = 50
        let fixture = try await DispatchFixture(settings: settings) { _ in sender }
        try await fixture.running {
            let batch = try await Self.store(fixture, devices: 1_000)
            try await fixture.expect { $0.written == 40 && sender.delivered.count == 1 }
            try await BatchStore(queue: fixture.queue).change(batch.id) { $0.isCancelled = true }
            fixture.dispatcher.signal()
            try await fixture.expect { $0.queued == 0 }
            barrier.open()
            try await fixture.expect { $0.unsettled == 0 }
            let counts = try await fixture.queue.batchCounts(of: [batch.route]).first
            #expect(counts?.outcomes == [.accepted: 1, .notSent: 999])
        }
    }

    @Test("A batch with a rate is sent no faster", .timeLimit(.minutes(5)))
    func rate() async throws {
        let sender = Self.accepting()
        let fixture = try await DispatchFixture { _ in sender }
        try await fixture.running {
            let start = ContinuousClock.now
            _ = try await Self.store(fixture, devices: 60) { $0.pushesPerSecond = 50 }
            try await fixture.expect { $0.unsettled == 0 }
            // The first tenth of a second's pushes, and one more part, may come at once.
            #expect(start.duration(to: .now) > .seconds(1) - .milliseconds(10))
        }
    }

    @Test("A change of the relays divides a batch's rate at once, and does not fill its bucket again")
    func dividedRate() async throws {
        let clock = ManualQueueClock(QueueTime(secondsSince1970: 1_800_000_000))
        let fixture = try await DispatchFixture(clock: clock) { _ in nil }
        let members = Mutex(1)
        let batches = fixture.context.batches
        batches.follow { members.withLock { $0 } }
        let route = try await Self.store(fixture, devices: 1) { $0.pushesPerSecond = 40 }.route
        try await batches.refresh([route])
        #expect(batches.allowance(route, wanted: 100).count == 4)
        members.withLock { $0 = 2 }
        #expect(batches.allowance(route, wanted: 100).count == 0)
        clock.advance(by: .milliseconds(100))
        #expect(batches.allowance(route, wanted: 100).count == 2)
        members.withLock { $0 = 1 }
        #expect(batches.allowance(route, wanted: 100).count == 0)
        clock.advance(by: .milliseconds(100))
        #expect(batches.allowance(route, wanted: 100).count == 4)
        try await fixture.close()
    }

    @Test("The pushes of a batch that the queue has lost are parked", .timeLimit(.minutes(5)))
    func lost() async throws {
        let sender = Self.accepting()
        let fixture = try await DispatchFixture { _ in sender }
        try await fixture.running {
            let batch = try await Self.store(fixture, devices: 10) { $0.isPaused = true }
            // The dispatcher knows the batch by now.
            try await fixture.expect { _ in fixture.context.batches.mode(of: batch.route) == .hold }
            try await BatchStore(queue: fixture.queue).remove(batch)
            fixture.dispatcher.signal()
            try await fixture.expect { $0.parked == 10 }
            #expect(sender.delivered.isEmpty)
        }
    }

    @Test("A batch that cannot be read waits, and is known for it") func unreadable() async throws {
        let fixture = try await DispatchFixture { _ in nil }
        let batches = fixture.context.batches
        let batch = try await Self.store(fixture, devices: 1)
        try await fixture.queue.setValue(Array("nonsense".utf8), forKey: "batch/\(batch.id)")
        try await batches.refresh([batch.route])
        #expect(batches.unreadable == [batch.id])
        #expect(batches.mode(of: batch.route) == .hold)
        try await fixture.close()
    }

    @Test("A batch without a key that nobody can continue is cancelled, and pushes that were parked later, too")
    func abandoned() async throws {
        let clock = ManualQueueClock(QueueTime(secondsSince1970: 1_800_000_000))
        let fixture = try await DispatchFixture(clock: clock) { _ in nil }
        let store = BatchStore(queue: fixture.queue)
        let keeper = BatchKeeper(queue: fixture.queue, clock: clock, retention: .seconds(600))
        let batch = try await Self.store(fixture, devices: 3) { $0.isComplete = false }
        clock.advance(by: .seconds(500))
        try await keeper.tend()
        #expect(try await store.state(batch.id)?.isCancelled == false)
        clock.advance(by: .seconds(101))
        try await keeper.tend()
        #expect(try await store.state(batch.id)?.isCancelled == true)
        let claims = try await fixture.queue.claim(batch.route, limit: 10, lease: .seconds(60)).map(\.claim)
        try await fixture.queue.park(claims.map { Settlement(claim: $0, outcome: .cancelled($0.id)) })
        try await keeper.tend()
        #expect(try await fixture.queue.counts().unsettled == 0)
        try await fixture.close()
    }

    @Test("A batch is forgotten after its outcomes, and not before")
    func retention() async throws {
        let clock = ManualQueueClock(QueueTime(secondsSince1970: 1_800_000_000))
        let fixture = try await DispatchFixture(clock: clock) { _ in nil }
        let store = BatchStore(queue: fixture.queue)
        let keeper = BatchKeeper(queue: fixture.queue, clock: clock, retention: .seconds(600))
        let batch = try await Self.store(fixture, devices: 10)
        try await keeper.tend()
        #expect(try await store.state(batch.id)?.endedAt == nil)
        #expect(try await fixture.queue.cancelAll(batch.route, limit: 100) == 10)
        try await keeper.tend()
        #expect(try await store.state(batch.id)?.endedAt == clock.now.millisecondsSince1970)
        // A request that has not noticed the end adds pushes.
        clock.advance(by: .seconds(300))
        _ = try await fixture.queue.enqueue(try Self.pushes(batch, 11...12), isPartial: false)
        #expect(try await fixture.queue.cancelAll(batch.route, limit: 100) == 2)
        clock.advance(by: .seconds(301))
        _ = try await fixture.queue.prune(Retention(outcomes: .seconds(600)), limit: 100)
        try await keeper.tend()
        #expect(try await store.state(batch.id)?.endedAt == clock.now.millisecondsSince1970)
        clock.advance(by: .seconds(601))
        try await keeper.tend()
        #expect(try await store.batch(batch.id) != nil, "some outcomes are still there")
        _ = try await fixture.queue.prune(Retention(outcomes: .seconds(600)), limit: 100)
        try await keeper.tend()
        #expect(try await store.batch(batch.id) == nil)
        #expect(try await fixture.queue.batchCounts(of: [batch.route]).first?.outcomes == [:])
        #expect(try await fixture.queue.values(withPrefix: BatchStore.prefix).isEmpty)
        try await fixture.close()
    }
}
