import APNSModel
import Foundation
import PushQueue
import PushQueueConformance
import Synchronization
import Testing

@testable import APNSRelay

struct DispatcherTests {
    @Test("Every due push is sent once, and its outcome stored", .timeLimit(.minutes(5)))
    func sends() async throws {
        let sender = ScriptedSender { id, _ in ScriptedSender.accept(id) }
        let fixture = try await DispatchFixture { _ in sender }
        try await fixture.running {
            let ids = try await fixture.store(700)
            try await fixture.expect { $0.unsettled == 0 }
            #expect(Set(sender.delivered) == Set(ids) && sender.delivered.count == 700)
            let outcomes = try await fixture.outcomes()
            #expect(outcomes.count == 700 && outcomes.values.allSatisfy { $0.certainty == .accepted })
            #expect(fixture.metrics.totals.accepted == 700)
        }
    }

    @Test("No more pushes are marked without an outcome than the window allows", .timeLimit(.minutes(5)))
    func bounded() async throws {
        let barrier = Barrier()
        let sender = ScriptedSender { id, _ in
            await barrier.wait()
            return ScriptedSender.accept(id)
        }
        var settings = DispatchSettings()
        settings.maxInFlight = 50
        let fixture = try await DispatchFixture(settings: settings) { _ in sender }
        try await fixture.running {
            try await fixture.store(300)
            // A route alone gets four fifths of the window, however few of its pushes the sender has begun.
            try await fixture.expect { $0.written == 40 && $0.queued == 260 && sender.delivered.count == 1 }
            barrier.open()
            try await fixture.expect { $0.unsettled == 0 }
        }
    }

    @Test("A route whose pushes are stuck does not hold up another one", .timeLimit(.minutes(5)))
    func independent() async throws {
        let barrier = Barrier()
        let stuck = ScriptedSender { id, _ in
            await barrier.wait()
            return ScriptedSender.accept(id)
        }
        let free = ScriptedSender { id, _ in ScriptedSender.accept(id) }
        var settings = DispatchSettings()
        settings.maxInFlight = 100
        let fixture = try await DispatchFixture(settings: settings) { $0.lane == .bulk ? stuck : free }
        let interactive = Route(app: "fern", environment: "production", lane: .interactive, caller: "test")
        try await fixture.running {
            try await fixture.store(500)
            try await fixture.expect { $0.written == 80 }
            try await fixture.store(200, interactive)
            try await fixture.expect { _ in fixture.metrics.totals.accepted == 200 }
            barrier.open()
            try await fixture.expect { $0.unsettled == 0 }
        }
    }

    @Test("A caller with 20,000 pushes does not delay another caller's push", .timeLimit(.minutes(5)))
    func fairness() async throws {
        let barrier = Barrier()
        let others = Mutex<Set<APNSID>>([])
        // The flood is answered only after the other caller's push.
        let sender = ScriptedSender { id, _ in
            if !others.withLock({ $0.contains(id) }) { await barrier.wait() }
            return ScriptedSender.accept(id)
        }
        var settings = DispatchSettings()
        settings.maxInFlight = 200
        let fixture = try await DispatchFixture(settings: settings) { _ in sender }
        let bank = Route(app: "fern", environment: "production", lane: .bulk, caller: "bank")
        let single = Route(app: "fern", environment: "production", lane: .interactive, caller: "bank")
        try await fixture.running {
            try await fixture.store(20_000)
            try await fixture.expect { $0.written == 160 }
            for route in [bank, single] {
                let now = fixture.context.clock.now
                let push = NewPush(
                    id: .random(),
                    route: route,
                    token: try DeviceToken("ab"),
                    push: try PreparedPush(topic: "com.a", pushType: .alert, payload: Array("{}".utf8)),
                    notBefore: now,
                    deadline: now.advanced(by: .seconds(3_600))
                )
                _ = others.withLock { $0.insert(push.id) }
                _ = try await fixture.queue.enqueue([push], isPartial: false)
                fixture.dispatcher.signal()
                try await fixture.expect { $0.sums(\.caller)["bank"]?.unsettled ?? 0 == 0 }
                #expect(try await fixture.queue.status(of: push.id)?.outcome?.certainty == .accepted)
            }
            let counts = try await fixture.queue.counts()
            #expect(counts.unsettled == 20_000 && counts.queued >= 19_800)
            barrier.open()
        }
    }

    @Test("An error of the whole route pauses it; the pushes are sent when it is gone", .timeLimit(.minutes(5)))
    func pauses() async throws {
        let isBroken = Mutex(true)
        let sender = ScriptedSender { id, _ in
            isBroken.withLock { $0 }
                ? ScriptedSender.fail(.unavailable, .notSent, id) : ScriptedSender.accept(id)
        }
        let fixture = try await DispatchFixture { _ in sender }
        try await fixture.running {
            try await fixture.store(600)
            try await fixture.expect { _ in
                let routes = await fixture.dispatcher.routes()
                return routes.contains { $0.state == .paused && $0.reason == "a test" }
            }
            isBroken.withLock { $0 = false }
            try await fixture.expect { $0.unsettled == 0 }
            let outcomes = try await fixture.outcomes()
            #expect(outcomes.count == 600 && outcomes.values.allSatisfy { $0.certainty == .accepted })
        }
    }

    @Test("A route counts as paused until one of the pushes that test it has arrived", .timeLimit(.minutes(5)))
    func testedRouteIsPaused() async throws {
        let barrier = Barrier()
        let isBroken = Mutex(true)
        let sender = ScriptedSender { id, _ in
            let fails = isBroken.withLock { isBroken in
                defer { isBroken = false }
                return isBroken
            }
            if fails { return ScriptedSender.fail(.unavailable, .notSent, id) }
            await barrier.wait()
            return ScriptedSender.accept(id)
        }
        let fixture = try await DispatchFixture { _ in sender }
        try await fixture.running {
            try await fixture.store(1)
            // The second attempt, which waits.
            try await fixture.expect { counts in
                let route = await fixture.dispatcher.routes().first { $0.route == fixture.route }
                return route?.state == .paused && route?.reason == "a test" && route?.pausedUntil == nil
                    && counts.written == 1
            }
            barrier.open()
            try await fixture.expect { $0.unsettled == 0 }
            try await fixture.expect { _ in
                await fixture.dispatcher.routes().allSatisfy { $0.state == .idle && $0.reason == nil }
            }
        }
    }

    @Test("The pushes of a paused app stay queued, and are sent when it goes on", .timeLimit(.minutes(5)))
    func pausedApp() async throws {
        let apps = PausedApps(nil)
        let barrier = Barrier()
        let sender = ScriptedSender { id, count in
            if count > 150 { await barrier.wait() }
            return ScriptedSender.accept(id)
        }
        var settings = DispatchSettings()
        settings.batch = 20
        settings.maxInFlight = 50
        let fixture = try await DispatchFixture(settings: settings, pausedApps: apps) { _ in sender }
        let other = Route(app: "moss", environment: "production", lane: .bulk, caller: "test")
        try await fixture.running {
            // It is not known yet which apps are paused.
            try await fixture.store(50)
            try await fixture.store(50, other)
            try await fixture.expect { _ in await fixture.dispatcher.routes().count == 2 }
            #expect(sender.delivered == [])

            apps.set(["fern"])
            fixture.dispatcher.signal()
            try await fixture.expect { $0.queued == 50 && $0.unsettled == 50 }
            let paused = await fixture.dispatcher.routes().first { $0.route == fixture.route }
            #expect(paused?.state == .paused && paused?.pausedUntil == nil)
            #expect(paused?.reason == "an operator has paused the app")

            apps.set([])
            fixture.dispatcher.signal()
            try await fixture.expect { $0.unsettled == 0 }
            #expect(sender.delivered.count == 100)

            // In the middle of a run: those in flight end, and the others stay.
            try await fixture.store(2_000)
            try await fixture.expect { _ in sender.delivered.count > 150 }
            apps.set(["fern"])
            fixture.dispatcher.signal()
            barrier.open()
            try await fixture.expect { $0.unsettled == $0.queued }
            let left = try await fixture.queue.counts().queued
            // At most a window was in flight, and a portion claimed.
            #expect(left >= 2_100 - 150 - settings.maxInFlight - settings.batch)
            let sent = sender.delivered.count
            #expect(sent + left == 2_100)
            apps.set([])
            fixture.dispatcher.signal()
            try await fixture.expect { $0.unsettled == 0 }
            #expect(sender.delivered.count == 2_100)
        }
    }

    @Test("A push that was not processed is sent again, and one that may have been is not", .timeLimit(.minutes(5)))
    func retries() async throws {
        let first = Mutex<Set<APNSID>>([])
        let unknown = Mutex<Set<APNSID>>([])
        let sender = ScriptedSender { id, _ in
            let number: Int? = first.withLock { $0.insert(id).inserted ? $0.count : nil }
            guard let number else { return ScriptedSender.accept(id) }
            if number.isMultiple(of: 2) { return ScriptedSender.fail(.refused, .notProcessed, id) }
            unknown.withLock { _ = $0.insert(id) }
            return ScriptedSender.fail(.connectionLost, .unknown, id)
        }
        let fixture = try await DispatchFixture { _ in sender }
        try await fixture.running {
            let ids = try await fixture.store(20)
            try await fixture.expect { $0.unsettled == 0 }
            let outcomes = try await fixture.outcomes()
            let expected = unknown.withLock { $0 }
            #expect(expected.count == 10)
            for id in ids {
                #expect(outcomes[id]?.certainty == (expected.contains(id) ? .unknown : .accepted))
            }
            #expect(sender.delivered.count == 30)
        }
    }

    @Test(
        "Device tokens are decrypted before the attempt, and pushes whose tokens cannot be are parked",
        .timeLimit(.minutes(5))
    )
    func encryptedTokens() async throws {
        let sender = ScriptedSender { id, _ in ScriptedSender.accept(id) }
        let (opened, unreadable) = (try DeviceToken("cdef"), try DeviceToken("ab00"))
        let fixture = try await DispatchFixture(deviceToken: { token, _ in token == unreadable ? nil : opened }) { _ in
            sender
        }
        try await fixture.running {
            // One of ten has the token that cannot be decrypted.
            try await fixture.store(100)
            try await fixture.expect { $0.parked == 10 && $0.unsettled == 10 }
            #expect(sender.tokens == [opened] && sender.delivered.count == 90)
            let parked = try await fixture.queue.parked(after: nil, limit: 100)
            #expect(parked.allSatisfy { $0.outcome?.error?.code == .configuration && $0.token == unreadable })
        }
    }

    @Test("A push whose app is not in the settings is parked", .timeLimit(.minutes(5)))
    func parks() async throws {
        let fixture = try await DispatchFixture { _ in nil }
        try await fixture.running {
            let id = try #require(try await fixture.store(1).first)
            try await fixture.expect { $0.parked == 1 }
            let status = try await fixture.queue.status(of: id)
            #expect(status?.state == .parked)
            #expect(status?.outcome?.error?.code == .configuration)
        }
    }

    @Test("A start with the app in the settings queues its parked pushes again", .timeLimit(.minutes(5)))
    func releases() async throws {
        let fixture = try await DispatchFixture { _ in nil }
        let first = Task { await fixture.dispatcher.run() }
        let ids = try await fixture.store(700, resendsUnknown: true)
        let other = try #require(
            try await fixture.store(1, Route(app: "moss", environment: "production", lane: .bulk, caller: "test")).first
        )
        try await fixture.expect { $0.parked == 701 }
        first.cancel()
        await first.value
        let sender = ScriptedSender { id, _ in ScriptedSender.accept(id) }
        let second = Dispatcher(
            context: fixture.restarted(),
            retention: Retention(),
            stopSending: {},
            sender: { $0.app == "fern" ? sender : nil }
        )
        let run = Task { await second.run() }
        try await fixture.expect { $0.unsettled == 1 }
        #expect(Set(sender.delivered) == Set(ids) && sender.delivered.count == 700)
        let status = try await fixture.queue.status(of: other)
        #expect(status?.state == .parked)
        run.cancel()
        await run.value
        try await fixture.close()
    }

    @Test("Only a push whose last attempt found no app in the settings counts as parked for that reason")
    func reasonOfParking() throws {
        let reason = "the settings have no app fern with the environment production"
        func isReason(_ message: String, after earlier: PushOutcome? = nil) throws -> Bool {
            let error = PushError(code: .configuration, certainty: .notSent, message: message)
            return UnknownRoute.isReason(of: try .sample(outcome: .failed(error).merged(with: earlier)))
        }
        let unknown = ScriptedSender.fail(.connectionLost, .unknown, .random())
        #expect(try isReason(reason))
        #expect(try isReason(reason, after: unknown))
        #expect(try !isReason("the response was: " + reason))
        #expect(try !isReason("the response was: " + reason, after: unknown))
        #expect(try !isReason("another error", after: unknown))
    }

    @Test("A push whose deadline passes in the queue ends as not sent", .timeLimit(.minutes(5)))
    func overdue() async throws {
        let sender = ScriptedSender { id, _ in ScriptedSender.fail(.unavailable, .notSent, id) }
        let fixture = try await DispatchFixture { _ in sender }
        try await fixture.running {
            let ids = try await fixture.store(30, deadline: .milliseconds(1_500))
            try await fixture.expect { $0.unsettled == 0 }
            let outcomes = try await fixture.outcomes()
            #expect(ids.allSatisfy { outcomes[$0]?.certainty == .notSent })
        }
    }

    @Test("After an implausible jump of the clock, no push expires, and others are sent", arguments: [false, true])
    func implausibleClock(isConfirmed: Bool) async throws {
        let manual = ManualQueueClock(QueueTime(secondsSince1970: 1_795_440_000))
        let clock = GuardedClock(manual, longestJump: .seconds(3_600))
        let apps = PausedApps(["fern"])
        let sender = ScriptedSender { id, _ in ScriptedSender.accept(id) }
        let fixture = try await DispatchFixture(pausedApps: apps, clock: clock) { _ in sender }
        try await fixture.running {
            let waiting = try await fixture.store(10, deadline: .seconds(86_400))
            manual.jump(by: .seconds(2 * 86_400))
            apps.set([])
            let others = try await fixture.store(5)
            try await fixture.expect { _ in sender.delivered.count == 5 }
            #expect(Set(sender.delivered) == Set(others))
            let counts = try await fixture.queue.counts()
            #expect(counts.queued == 10)
            if isConfirmed { clock.confirm() } else { manual.jump(by: .seconds(-2 * 86_400)) }
            fixture.dispatcher.signal()
            try await fixture.expect { $0.unsettled == 0 }
            let outcomes = try await fixture.outcomes()
            for id in waiting {
                #expect(outcomes[id]?.certainty == (isConfirmed ? .notSent : .accepted))
                #expect(outcomes[id]?.error?.code == (isConfirmed ? .deadlineExceeded : nil))
            }
        }
    }

    @Test(
        "Pushes that return to the queue during an implausible jump are sent when the clock is right again",
        .timeLimit(.minutes(5)),
        arguments: [false, true]
    )
    func returnedDuringJump(isAttempted: Bool) async throws {
        let manual = ManualQueueClock(QueueTime(secondsSince1970: 1_795_440_000))
        let clock = GuardedClock(manual, longestJump: .seconds(3_600))
        let jump = FirstCall { manual.jump(by: .seconds(2 * 86_400)) }
        let sender = ScriptedSender { id, _ in
            isAttempted && jump.perform()
                ? ScriptedSender.fail(.refused, .notProcessed, id) : ScriptedSender.accept(id)
        }
        let fixture = try await DispatchFixture(
            clock: clock,
            wrap: { isAttempted ? $0 : JumpingQueue(base: $0, jump: jump) },
            sender: { _ in sender }
        )
        try await fixture.running {
            try await fixture.store(10, deadline: .seconds(86_400))
            // Not in one condition: its counts may be older than the jump.
            try await fixture.expect { _ in jump.isDone }
            try await fixture.expect { $0.queued > 0 && $0.queued == $0.unsettled }
            manual.jump(by: .seconds(-2 * 86_400))
            // The longest delay of a first retry.
            manual.advance(by: .seconds(1))
            fixture.dispatcher.signal()
            try await fixture.expect { $0.unsettled == 0 }
            let outcomes = try await fixture.outcomes()
            #expect(outcomes.count == 10 && outcomes.values.allSatisfy { $0.certainty == .accepted })
        }
    }

    @Test(
        "While the disk is full, nothing is lost and nothing is sent twice",
        .timeLimit(.minutes(5)),
        arguments: [
            ["settle"], ["release"], ["markWritten"], ["claim"], ["claim", "markWritten", "settle", "release"],
        ]
    )
    func diskFull(calls: [String]) async throws {
        let first = Mutex<Set<APNSID>>([])
        // Each push is refused once, so that it returns to the queue.
        let sender = ScriptedSender { id, _ in
            first.withLock { $0.insert(id).inserted }
                ? ScriptedSender.fail(.refused, .notProcessed, id) : ScriptedSender.accept(id)
        }
        let disk = FailingDisk()
        let fixture = try await DispatchFixture(wrap: { FailingQueue($0, disk) }) { _ in sender }
        try await fixture.running {
            disk.fill(for: Set(calls))
            try await fixture.store(100)
            try await fixture.expect { _ in disk.failures > 2 && fixture.context.storage.problem != nil }
            disk.clear()
            try await fixture.expect { $0.unsettled == 0 && fixture.context.storage.problem == nil }
            let outcomes = try await fixture.outcomes()
            #expect(outcomes.count == 100 && outcomes.values.allSatisfy { $0.certainty == .accepted })
            #expect(sender.delivered.count == 200)
        }
    }
}

/// Does something once, at the first call.
private final class FirstCall: Sendable {
    private let body: @Sendable () -> Void
    private let done = Mutex(false)

    init(_ body: @escaping @Sendable () -> Void) {
        self.body = body
    }

    var isDone: Bool { self.done.withLock { $0 } }

    /// - Returns: whether this is the first call.
    func perform() -> Bool {
        self.done.withLock { done in
            guard !done else { return false }
            self.body()
            done = true
            return true
        }
    }
}

/// A queue whose clock jumps while pushes are being claimed.
private struct JumpingQueue: WrappingPushQueue {
    let base: any PushQueue
    let jump: FirstCall

    func call<Value: Sendable>(
        _ name: String,
        _ body: () async throws(QueueError) -> Value
    ) async throws(QueueError) -> Value {
        let value = try await body()
        if let claimed = value as? [ClaimedPush], !claimed.isEmpty { _ = self.jump.perform() }
        return value
    }
}

/// Lets tasks wait until it is opened.
final class Barrier: Sendable {
    private let state = Mutex<(isOpen: Bool, waiting: [CheckedContinuation<Void, Never>])>((false, []))

    func wait() async {
        await withCheckedContinuation { continuation in
            let isOpen = self.state.withLock { state in
                if !state.isOpen { state.waiting.append(continuation) }
                return state.isOpen
            }
            if isOpen { continuation.resume() }
        }
    }

    func open() {
        let waiting = self.state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }
}
