import APNSModel
import PushQueue
import PushQueueConformance
import Synchronization
import Testing

@testable import APNSRelay

/// Routes that begin again, because the settings of their app have changed.
struct RestartTests {
    /// Runs a function before the first call of one name.
    private final class HookedQueue: WrappingPushQueue {
        let base: any PushQueue
        private let name: String
        private let hook: Mutex<Hook>

        private struct Hook {
            var body: (@Sendable () async -> Void)?
        }

        init(_ base: any PushQueue, before name: String, _ hook: @escaping @Sendable () async -> Void) {
            self.base = base
            self.name = name
            self.hook = Mutex(Hook(body: hook))
        }

        func call<Value: Sendable>(
            _ name: String,
            _ body: () async throws(QueueError) -> Value
        ) async throws(QueueError) -> Value {
            if name == self.name, let hook = self.hook.withLock({ $0.body.take() }) { await hook() }
            return try await body()
        }
    }

    @Test(
        "Pushes that are being parked while their app comes back are sent",
        .timeLimit(.minutes(5)),
        arguments: [false, true]
    )
    func comesBackWhileParking(areBatch: Bool) async throws {
        let sender = ScriptedSender { id, _ in ScriptedSender.accept(id) }
        let isKnown = Mutex(false)
        let dispatcher = Mutex<Dispatcher?>(nil)
        var settings = DispatchSettings()
        settings.batch = 50
        let fixture = try await DispatchFixture(
            settings: settings,
            wrap: { queue in
                HookedQueue(queue, before: "park") {
                    // The first pushes are claimed, and are parked only after this.
                    isKnown.withLock { $0 = true }
                    await dispatcher.withLock { $0 }?.restart(["fern"])
                }
            },
            sender: { _ in isKnown.withLock { $0 } ? sender : nil }
        )
        dispatcher.withLock { $0 = fixture.dispatcher }
        if areBatch {
            _ = try await BatchDispatchTests.store(fixture, devices: 500)
        } else {
            try await fixture.store(500)
        }
        try await fixture.running {
            try await fixture.expect { $0.unsettled == 0 }
            #expect(Set(sender.delivered).count == 500)
            #expect(sender.delivered.count == 500)
        }
    }

    @Test("A route that pauses while its app changes is not paused with the new settings", .timeLimit(.minutes(5)))
    func pauseEnds() async throws {
        let dispatcher = Mutex<Dispatcher?>(nil)
        let sender = ScriptedSender { id, count in
            guard count == 1 else { return ScriptedSender.accept(id) }
            // The correction comes before APNs has refused the old credential.
            await dispatcher.withLock { $0 }?.restart(["fern"])
            return ScriptedSender.fail(.configuration, .notSent, id)
        }
        let clock = ManualQueueClock(QueueTime(secondsSince1970: 1_795_440_000))
        let fixture = try await DispatchFixture(clock: clock, sender: { _ in sender })
        dispatcher.withLock { $0 = fixture.dispatcher }
        try await fixture.store(1)
        try await fixture.running {
            // The push itself waits a little; the route does not.
            try await fixture.expect { _ in !sender.delivered.isEmpty }
            try await fixture.expect { $0.queued == 1 }
            try await fixture.store(1)
            try await fixture.expect { $0.unsettled == 1 }
            #expect(sender.delivered.count == 2)
        }
    }
}
