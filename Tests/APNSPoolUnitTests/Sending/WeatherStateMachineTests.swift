import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// When pushes are held back because each of them gets the same failure, and when they are sent again.
struct WeatherStateMachineTests {
    private static let cause = WeatherStateMachine.Cause(description: "503 ServiceUnavailable")
    private static let start = MonotonicInstant(nanoseconds: 1_000_000_000_000)

    /// A machine with a clock of its own.
    private struct Station {
        var machine: WeatherStateMachine
        var now = WeatherStateMachineTests.start

        init(seed: UInt64 = 1) {
            self.machine = WeatherStateMachine(seed: seed)
        }

        mutating func verdicts(_ count: Int = 1) -> WeatherStateMachine.Event? {
            self.machine.observe(.init(verdicts: count), now: self.now)
        }

        mutating func weather(_ count: Int = 1, retryAfter: Duration? = nil) -> WeatherStateMachine.Event? {
            let results = WeatherStateMachine.Results(weather: count, cause: cause, retryAfter: retryAfter)
            return self.machine.observe(results, now: self.now)
        }

        /// Admits a push, waiting for as long as the machine says.
        mutating func admit() -> Duration {
            var waited = Duration.zero
            while case .wait(let until, _, _) = self.machine.admit(now: self.now) {
                waited += self.now.duration(to: until)
                self.now = until
            }
            return waited
        }

        /// Ends the fault: each push that is admitted gets a verdict.
        mutating func clear() -> [WeatherStateMachine.Event] {
            var events: [WeatherStateMachine.Event] = []
            while !self.machine.isFair {
                var sent = 0
                while !self.isHeld {
                    _ = self.admit()
                    sent += self.machine.take(1000)
                }
                if let event = self.verdicts(max(sent, 1)) { events.append(event) }
            }
            return events
        }

        var isHeld: Bool {
            var copy = self.machine
            return copy.admit(now: self.now) != .send
        }
    }

    @Test("A trial that was not sent lets another one begin at once")
    func unsentTrial() {
        var station = Station()
        _ = station.weather(20)
        #expect(station.admit() == .zero)
        #expect(station.isHeld)
        station.machine.returnAdmission()
        #expect(station.admit() == .zero)
        #expect(station.isHeld)
    }

    @Test("The first trial begins at once, and each further one after a longer pause, of at most five seconds")
    func trials() {
        var station = Station()
        _ = station.weather(500)
        #expect(station.admit() == .zero)
        #expect(station.isHeld)
        var pauses: [Duration] = []
        for _ in 0..<12 {
            _ = station.weather()
            pauses.append(station.admit())
        }
        #expect(pauses[0] >= .milliseconds(10) && pauses[0] <= .milliseconds(20))
        #expect(pauses.allSatisfy { $0 <= .seconds(5) })
        #expect(pauses[11] >= .milliseconds(2500))
    }

    @Test("A trial without a result holds back the next one for five seconds")
    func lostTrial() {
        var station = Station()
        _ = station.weather(500)
        #expect(station.admit() == .zero)
        #expect(station.admit() == .seconds(5))
    }

    @Test("A verdict ends sporadic weather at once, without limits afterwards")
    func sporadic() {
        var station = Station()
        _ = station.verdicts(20)
        for _ in 0..<1000 {
            _ = station.weather()
            #expect(station.admit() == .zero)
            _ = station.verdicts(9)
            #expect(station.machine.isFair)
        }
    }

    @Test("A tick with verdicts does not begin bad weather, unless at least 18 results after them are weather")
    func mixedTick() {
        for latest in [0, 17, 18, 99] {
            var station = Station()
            let mixed = WeatherStateMachine.Results(
                verdicts: 100,
                weather: 99,
                latestWeather: latest,
                cause: Self.cause
            )
            #expect(station.machine.observe(mixed, now: station.now) == nil)
            #expect(station.machine.isFair == (latest < 18))
            #expect(station.machine.spell?.isGeneral == (latest < 18 ? nil : true))
        }
    }

    @Test("Late verdicts do not end bad weather if the results after them show that it lasts")
    func lateVerdicts() {
        var station = Station()
        _ = station.weather()
        let late = WeatherStateMachine.Results(verdicts: 100, weather: 18, latestWeather: 18, cause: Self.cause)
        #expect(station.machine.observe(late, now: station.now) == nil)
        #expect(station.admit() == .zero)
        #expect(station.isHeld)
    }

    @Test("After a general fault, full speed is back after eight round trips")
    func clearing() {
        var station = Station()
        _ = station.weather(500)
        _ = station.admit()
        var sent = 1
        var roundTrips = 0
        while !station.machine.isFair {
            roundTrips += 1
            _ = station.verdicts(sent)
            sent = 0
            while !station.machine.isFair, !station.isHeld {
                _ = station.admit()
                sent += station.machine.take(1000)
            }
        }
        #expect(roundTrips <= 8)
    }

    @Test("With few pushes, two verdicts within more than five seconds end the clearing")
    func quietClearing() {
        var station = Station()
        _ = station.weather(500)
        _ = station.admit()
        _ = station.verdicts()
        #expect(!station.machine.isFair)
        station.now = station.now.advanced(by: .seconds(30))
        _ = station.admit()
        _ = station.verdicts()
        #expect(station.machine.isFair)
    }

    @Test("While it clears, weather among the results returns to single trials")
    func relapse() {
        var station = Station()
        _ = station.weather(500)
        _ = station.admit()
        _ = station.verdicts()
        _ = station.admit()
        _ = station.weather()
        #expect(station.isHeld)
        #expect(station.admit() >= .milliseconds(10))
    }

    @Test("While it clears, pushes whose results never come hold the others back for a second at a time")
    func lostCredit() {
        var station = Station()
        _ = station.weather(500)
        _ = station.admit()
        _ = station.verdicts()
        #expect(station.admit() == .zero)
        #expect(station.admit() == .zero)
        #expect(station.admit() == .seconds(1))
    }

    @Test("A retry-after delays the next trial once the fault is general, by at most twenty minutes")
    func retryAfter() {
        var station = Station()
        _ = station.weather(1, retryAfter: .seconds(60))
        #expect(station.admit() == .zero)
        _ = station.weather(30, retryAfter: .seconds(60))
        #expect(station.admit() == .seconds(60))
        _ = station.weather(1, retryAfter: .seconds(86_400))
        #expect(station.admit() == .seconds(1200))
    }

    @Test("A spell is reported once after two seconds, and once when it has ended")
    func reports() {
        var station = Station()
        _ = station.weather(500)
        var events: [WeatherStateMachine.Event] = []
        while station.now < Self.start.advanced(by: .seconds(30)) {
            _ = station.admit()
            if let event = station.machine.report(station.now) { events.append(event) }
            if let event = station.weather() { events.append(event) }
        }
        #expect(events == [.began(Self.cause)])
        let lasted = Self.start.duration(to: station.now)
        #expect(station.clear() == [.ended(Self.cause, after: lasted)])
        #expect(station.machine.isFair)
    }

    @Test("A spell that has cleared for five seconds is no longer reported, however few pushes follow")
    func reportedWhileClearing() {
        var station = Station()
        _ = station.weather(500)
        while station.machine.reported(at: station.now) == nil {
            _ = station.admit()
            _ = station.weather()
            _ = station.machine.report(station.now)
        }
        #expect(station.machine.reported(at: station.now) == Self.cause)
        _ = station.admit()
        _ = station.verdicts()
        #expect(!station.machine.isFair)
        #expect(station.machine.reported(at: station.now) == Self.cause)
        #expect(station.machine.reported(at: station.now.advanced(by: .seconds(5))) == nil)
    }

    @Test("A short spell is not reported")
    func shortSpell() {
        var station = Station()
        #expect(station.weather(500) == nil)
        for _ in 0..<3 {
            _ = station.admit()
            #expect(station.weather() == nil)
        }
        #expect(station.clear().isEmpty)
        #expect(station.machine.isFair)
    }

    @Test("Late verdicts of pushes that were sent before a fault let few others through", arguments: 1...50)
    func lateVerdicts(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var station = Station()
        _ = station.verdicts(500)
        _ = station.weather(50)
        // Another connection reports what it had in flight, while each push that is sent now meets the fault.
        var (late, ticks, lost) = (500, 0, 0)
        while late > 0 {
            let tick = Int.random(in: 1...late, using: &random)
            _ = station.verdicts(tick)
            late -= tick
            ticks += 1
            while !station.isHeld {
                _ = station.admit()
                lost += station.machine.take(1000)
                _ = station.weather(1)
            }
        }
        #expect(!station.machine.isFair)
        // Each tick may hold the verdict of a trial, which admits two.
        #expect(lost <= 2 * ticks + 2, "\(lost) pushes in \(ticks) ticks")
    }

    /// A service with one verdict for each push, or weather for a time, and senders that obey the machine.
    @Test("Random outages cost at most the pushes in flight when they begin, and one for each trial", arguments: 1...50)
    func randomOutages(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var station = Station(seed: seed &+ 1000)
        let inFlight = Int.random(in: 1...1000, using: &random)
        for _ in 0..<20 {
            // Fair weather.
            for _ in 0..<30 {
                _ = station.verdicts(inFlight)
                station.now = station.now.advanced(by: .milliseconds(30))
            }
            #expect(station.machine.isFair)
            // The outage: what is in flight fails, in ticks.
            let end = station.now.advanced(by: .milliseconds(Int64.random(in: 1...60_000, using: &random)))
            var left = inFlight
            while left > 0 {
                let tick = Int.random(in: 1...left, using: &random)
                _ = station.weather(tick)
                left -= tick
            }
            var trials = 0
            while true {
                _ = station.admit()
                guard station.now < end else { break }
                trials += 1
                _ = station.weather()
                station.now = station.now.advanced(by: .milliseconds(1))
            }
            // The pauses double, up to five seconds.
            #expect(trials <= 12 + 60 / 2, "seed \(seed)")
            // The outage is over, and the last trial gets a verdict.
            #expect(end.duration(to: station.now) <= .seconds(5), "seed \(seed)")
            var verdicts = 1
            while !station.machine.isFair {
                _ = station.verdicts(verdicts)
                station.now = station.now.advanced(by: .milliseconds(30))
                verdicts = 0
                while !station.machine.isFair, !station.isHeld {
                    _ = station.admit()
                    verdicts += station.machine.take(1)
                }
                verdicts = max(verdicts, 1)
            }
        }
    }
}
