import APNSModel
import PushQueue
import Synchronization
import Testing

@testable import APNSRelay

struct AppRatesTests {
    private static func route(
        _ lane: PushLane,
        _ environment: String = "production",
        app: String = "fern",
        caller: String = "test"
    ) -> Route {
        Route(app: app, environment: environment, lane: lane, caller: caller)
    }

    private static func rates(_ rate: Int, members: Int = 1) -> (rates: AppRates, clock: ManualQueueClock) {
        let clock = ManualQueueClock(QueueTime(secondsSince1970: 1_800_000_000))
        let rates = AppRates(clock: clock)
        var app = TestRelay.app("fern")
        app.pushesPerSecond = rate
        rates.set([app, TestRelay.app("moss")])
        rates.follow { members }
        return (rates, clock)
    }

    @Test("The routes of an app share its rate, and bulk routes leave a reserve to interactive ones")
    func reserve() {
        let (rates, clock) = Self.rates(1_000)
        #expect(rates.allowance(Self.route(.bulk), wanted: 50).count == 50)
        #expect(rates.allowance(Self.route(.bulk, "development", caller: "shop"), wanted: 500).count == 50)
        let none = rates.allowance(Self.route(.bulk), wanted: 500)
        // Longer than for one push, so that the next claim is worth it.
        #expect(none.count == 0 && none.wait == .milliseconds(20))
        #expect(rates.allowance(Self.route(.interactive), wanted: 3).count == 3)
        #expect(rates.allowance(Self.route(.interactive), wanted: 500).count == 7)
        #expect(rates.allowance(Self.route(.interactive), wanted: 500).count == 0)
        #expect(rates.allowance(Self.route(.bulk, app: "moss"), wanted: 500).count == 500)
        clock.advance(by: .milliseconds(50))
        #expect(rates.allowance(Self.route(.bulk), wanted: 500).count == 40)
        rates.giveBack(25, Self.route(.bulk))
        #expect(rates.allowance(Self.route(.bulk), wanted: 500).count == 25)
    }

    @Test("Each relay has an equal share, and a small rate still has a reserve", arguments: [1, 3, 10])
    func shares(members: Int) {
        let (rates, clock) = Self.rates(30, members: members)
        var sent = 0
        for _ in 0..<1_000 {
            sent += rates.allowance(Self.route(.bulk), wanted: 500).count
            #expect(rates.allowance(Self.route(.interactive), wanted: 1).count == 1)
            rates.giveBack(1, Self.route(.interactive))
            clock.advance(by: .milliseconds(10))
        }
        // Ten seconds.
        let expected = 300 / members
        #expect((expected - 3...expected + 3).contains(sent), "\(sent)")
        #expect(rates.allowance(Self.route(.interactive), wanted: 1).count == 1)
    }

    @Test("A change of the relays does not fill the bucket again, and neither do settings with the same rate")
    func change() {
        let (rates, clock) = Self.rates(1_000)
        let members = Mutex(1)
        rates.follow { members.withLock { $0 } }
        #expect(rates.allowance(Self.route(.interactive), wanted: 500).count == 110)
        for count in [2, 1, 4] {
            members.withLock { $0 = count }
            #expect(rates.allowance(Self.route(.interactive), wanted: 500).count == 0)
        }
        var app = TestRelay.app("fern")
        app.pushesPerSecond = 1_000
        rates.set([app])
        clock.advance(by: .milliseconds(20))
        #expect(rates.allowance(Self.route(.interactive), wanted: 500).count == 5)
        app.pushesPerSecond = 2_000
        rates.set([app])
        #expect(rates.allowance(Self.route(.interactive), wanted: 500).count == 55)
    }

    @Test("Bulk pushes are sent at the app's rate, and an interactive one does not wait", .timeLimit(.minutes(5)))
    func dispatch() async throws {
        let sender = ScriptedSender { id, _ in ScriptedSender.accept(id) }
        let clock = ManualQueueClock(QueueTime(secondsSince1970: 1_800_000_000))
        let fixture = try await DispatchFixture(clock: clock) { _ in sender }
        var app = TestRelay.app("fern")
        app.pushesPerSecond = 100
        fixture.context.appRates.set([app])
        try await fixture.running {
            try await fixture.store(100)
            try await fixture.store(100, Self.route(.bulk, "development", caller: "shop"))
            // The pushes of 100 ms.
            try await fixture.expect { $0.unsettled == 190 }
            let urgent = try await fixture.store(1, Self.route(.interactive))
            try await fixture.expect { $0.unsettled == 190 }
            #expect(sender.delivered.last == urgent.first)
            for step in 1...5 {
                clock.advance(by: .milliseconds(100))
                try await fixture.expect { $0.unsettled == 191 - step * 10 }
            }
            // The interactive push has used the reserve, which is filled first.
            #expect(sender.delivered.count == 60)
            fixture.context.appRates.set([])
            try await fixture.expect { $0.unsettled == 0 }
        }
    }
}
