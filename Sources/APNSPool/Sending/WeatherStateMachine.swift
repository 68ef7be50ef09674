import APNSBasics
import SupervisedPool

/// Whether APNs decides on pushes at present, or fails all of them alike. One value for each credential, because an outage
/// may concern the credential alone.
///
/// A response that says something about its push is a verdict; whatever would meet any other push now is weather
/// (`Rejection.isWeather` and `StreamResult.weather`).
///
/// ```
///            weather, and no verdict with it ¹          a verdict, after 18 of 20 results were weather
///   fair ────────────────────────────────────▶ bad ───────────────────────────────────────────▶ clearing
///    ▲                                        │  ▲                                                │  │
///    │ a verdict, while weather is sporadic   │  │ more weather than a quarter of the verdicts    │  │
///    ├────────────────────────────────────────┘  └────────────────────────────────────────────────┘  │
///    └───────────────────────────────────────────────────────────────────────────────────────────────┘
///                                                                                       128 verdicts
/// ```
///
/// ¹ or at least 18 results that are weather after the last verdict.
///
/// In bad weather, one push at a time is sent as a trial, after growing pauses, until a verdict arrives. While it
/// clears, each verdict admits two further pushes, so that full speed is back after eight round trips. Only as many
/// verdicts count as pushes were admitted, because those of older pushes may arrive late. Sporadic weather slows
/// nothing down: the verdict of any push in flight ends it at once. A key or certificate that APNs refuses is not
/// weather here, because `CredentialStateMachine` holds pushes back for it.
struct WeatherStateMachine: Sendable {
    /// What meets every push, for errors, health and logs.
    struct Cause: Hashable, Sendable, CustomStringConvertible {
        /// For example "503 ServiceUnavailable".
        var description: String
        /// Whether it concerns the credential, and not APNs as a whole.
        var concernsCredential = false
    }

    /// The results of one connection in one tick of its event loop.
    struct Results: Equatable, Sendable {
        var verdicts = 0
        var weather = 0
        /// How much of the weather came after the last verdict.
        var latestWeather = 0
        /// The cause of the last weather among them.
        var cause: Cause?
        /// The longest `retry-after` among them.
        var retryAfter: Duration?

        /// Whether a push that is sent now can expect a verdict: one is among the results, and no long run of weather
        /// follows it. Such a run shows that an outage has begun since.
        var promiseVerdicts: Bool { self.verdicts > 0 && self.latestWeather < WeatherStateMachine.generalLimit }

        mutating func addWeather(_ count: Int = 1) {
            self.weather += count
            self.latestWeather += count
        }
    }

    /// A time of bad weather.
    struct Spell: Equatable, Sendable {
        var cause: Cause
        let since: MonotonicInstant
        /// The trials that met weather, too.
        var failedTrials = 0
        var pauses = WeatherStateMachine.pauses
        /// No trial begins before this instant.
        var nextTrial: MonotonicInstant
        /// While a trial is under way: when another one may begin although it has no result.
        var trialEnd: MonotonicInstant?
        /// Whether nearly all of the last results were weather.
        var isGeneral = false
        /// Whether it has been reported.
        var isReported = false
        /// The pushes that were admitted during the spell and have no result yet.
        var admitted = 0

        /// Records results, and returns how many of the verdicts may be those of admitted pushes.
        ///
        /// Pushes that were sent before the spell may still get verdicts, late. They say nothing about what a push would
        /// get that is sent now.
        mutating func take(_ results: Results) -> Int {
            let own = min(results.verdicts, max(0, self.admitted - results.weather))
            self.admitted = max(0, self.admitted - results.weather - own)
            return own
        }
    }

    struct Clearing: Equatable, Sendable {
        /// How many further pushes may begin.
        var credit: Int
        var verdicts: Int
        var weather = 0
        let since: MonotonicInstant
        var lastResult: MonotonicInstant
    }

    enum State: Equatable, Sendable {
        case fair
        case bad(Spell)
        case clearing(Spell, Clearing)
    }

    enum Event: Equatable, Sendable {
        case began(Cause)
        case ended(Cause, after: Duration)
    }

    enum Admission: Equatable, Sendable {
        /// One push may be sent.
        case send
        /// None may be sent before `until`.
        case wait(until: MonotonicInstant, Cause, since: MonotonicInstant)
    }

    /// The pauses before the trials of a spell. The first trial begins at once.
    static let pauses = Backoff(.doubling(randomPercent: 50), minimum: .milliseconds(20), maximum: .seconds(5))
    /// How long a trial without a result holds back the next one.
    static let trialTime = Duration.seconds(5)
    /// The longest pause that a `retry-after` can cause: the time for which APNs refuses a new provider token.
    static let longestPause = Duration.seconds(20 * 60)
    /// How many of the last results are considered, and how many of them must be weather for a general fault.
    static let window = 20
    static let generalLimit = 18
    /// A spell is reported when it has lasted this long, or when this many trials have failed.
    static let reportAfter = Duration.seconds(2)
    static let reportAfterTrials = 8
    /// The verdicts after which the weather is fair again, and the time after which two are enough: with few pushes, none
    /// of them waits.
    static let clearingVerdicts = 128
    static let clearingTime = Duration.seconds(5)
    /// While it clears, one push may begin after so long without a result.
    static let clearingPause = Duration.seconds(1)

    private(set) var state = State.fair
    /// One bit for each of the last results, the newest in the lowest bit; 1: weather.
    private var history: UInt32 = 0
    private var random: SplitMix64

    /// - Parameter seed: Makes the pauses repeatable; nil: a random seed.
    init(seed: UInt64? = nil) {
        self.random = SplitMix64(seed: seed)
    }

    /// Whether pushes are sent without limits.
    var isFair: Bool { self.state == .fair }

    /// The spell that lasts or clears.
    var spell: Spell? {
        switch self.state {
        case .fair: nil
        case .bad(let spell), .clearing(let spell, _): spell
        }
    }

    // MARK: Results

    /// Records the results of a tick.
    mutating func observe(_ results: Results, now: MonotonicInstant) -> Event? {
        self.record(results)
        switch self.state {
        case .fair:
            guard !results.promiseVerdicts, results.weather > 0, let cause = results.cause else { return nil }
            self.state = .bad(Spell(cause: cause, since: now, nextTrial: now, isGeneral: self.isGeneral))
            return nil
        case .bad(var spell):
            guard !results.promiseVerdicts else { return self.receivedVerdicts(results, spell, now) }
            guard results.weather > 0 else { return nil }
            _ = spell.take(results)
            if let cause = results.cause { spell.cause = cause }
            if self.isGeneral { spell.isGeneral = true }
            if spell.trialEnd != nil {
                spell.trialEnd = nil
                spell.failedTrials += 1
                spell.nextTrial = now.advanced(by: spell.pauses.next(using: &self.random))
            }
            // A single server's wish does not hold back what other servers take.
            if spell.isGeneral, let retryAfter = results.retryAfter {
                spell.nextTrial = max(spell.nextTrial, now.advanced(by: min(retryAfter, Self.longestPause)))
            }
            self.state = .bad(spell)
            return self.report(now)
        case .clearing(var spell, var clearing):
            let verdicts = spell.take(results)
            clearing.verdicts += verdicts
            clearing.weather += results.weather
            clearing.credit += 2 * verdicts
            clearing.lastResult = now
            if clearing.weather * 4 > clearing.verdicts {
                if let cause = results.cause { spell.cause = cause }
                spell.trialEnd = nil
                spell.nextTrial = now.advanced(by: spell.pauses.next(using: &self.random))
                self.state = .bad(spell)
                return nil
            }
            let isQuiet = clearing.since.duration(to: now) >= Self.clearingTime
            if clearing.verdicts >= (isQuiet ? 2 : Self.clearingVerdicts) { return self.end(spell, now) }
            self.state = .clearing(spell, clearing)
            return nil
        }
    }

    private mutating func receivedVerdicts(_ results: Results, _ spell: Spell, _ now: MonotonicInstant) -> Event? {
        guard spell.isGeneral else { return self.end(spell, now) }
        var spell = spell
        _ = spell.take(results)
        // One of them may be the trial's.
        self.state = .clearing(spell, Clearing(credit: 2, verdicts: 1, since: now, lastResult: now))
        return nil
    }

    private mutating func end(_ spell: Spell, _ now: MonotonicInstant) -> Event? {
        self.state = .fair
        return spell.isReported ? .ended(spell.cause, after: spell.since.duration(to: now)) : nil
    }

    private mutating func record(_ results: Results) {
        self.history = Self.shifted(self.history, results.weather - results.latestWeather, by: 1)
        self.history = Self.shifted(self.history, results.verdicts, by: 0)
        self.history = Self.shifted(self.history, results.latestWeather, by: 1)
    }

    private static func shifted(_ history: UInt32, _ count: Int, by bit: UInt32) -> UInt32 {
        let mask = UInt32(1) << UInt32(Self.window) - 1
        guard count < Self.window else { return bit == 0 ? 0 : mask }
        let added = bit == 0 ? 0 : UInt32(1) << UInt32(count) - 1
        return (history << UInt32(count) | added) & mask
    }

    private var isGeneral: Bool { self.history.nonzeroBitCount >= Self.generalLimit }

    // MARK: Questions

    /// Whether a push may be sent now. In bad weather, a push that is admitted is the trial.
    mutating func admit(now: MonotonicInstant) -> Admission {
        switch self.state {
        case .fair:
            return .send
        case .bad(var spell):
            let until = max(spell.trialEnd ?? spell.nextTrial, spell.nextTrial)
            guard now >= until else { return .wait(until: until, spell.cause, since: spell.since) }
            spell.trialEnd = now.advanced(by: Self.trialTime)
            spell.admitted += 1
            self.state = .bad(spell)
            return .send
        case .clearing(var spell, var clearing):
            let until = clearing.lastResult.advanced(by: Self.clearingPause)
            if clearing.credit == 0 {
                // The wait is short now, whenever the spell began.
                guard now >= until else { return .wait(until: until, spell.cause, since: clearing.since) }
                clearing.credit = 1
                clearing.lastResult = now
            }
            clearing.credit -= 1
            spell.admitted += 1
            self.state = .clearing(spell, clearing)
            return .send
        }
    }

    /// How many pushes may be sent by one that was admitted together with others.
    ///
    /// - Parameter count: how many are wanted, at least one.
    mutating func take(_ count: Int) -> Int {
        switch self.state {
        case .fair:
            return count
        case .bad:
            return 1
        case .clearing(var spell, var clearing):
            let more = min(count - 1, clearing.credit)
            clearing.credit -= more
            spell.admitted += more
            self.state = .clearing(spell, clearing)
            return 1 + more
        }
    }

    /// Records that an admitted push was not sent, so that another one may be tried at once.
    mutating func returnAdmission() {
        switch self.state {
        case .fair: break
        case .bad(var spell):
            spell.trialEnd = nil
            spell.admitted = max(0, spell.admitted - 1)
            self.state = .bad(spell)
        case .clearing(var spell, var clearing):
            clearing.credit += 1
            spell.admitted = max(0, spell.admitted - 1)
            self.state = .clearing(spell, clearing)
        }
    }

    /// The cause of a reported spell. Nil once it has cleared for ``clearingTime``: with few pushes, it may take long until
    /// the weather counts as fair, but they are delivered.
    func reported(at now: MonotonicInstant) -> Cause? {
        guard let spell = self.spell, spell.isReported else { return nil }
        if case .clearing(_, let clearing) = self.state, clearing.since.duration(to: now) >= Self.clearingTime {
            return nil
        }
        return spell.cause
    }

    /// The spell's beginning, as soon as it has lasted long enough to be reported.
    mutating func report(_ now: MonotonicInstant) -> Event? {
        guard case .bad(var spell) = self.state, !spell.isReported, spell.failedTrials > 0,
            spell.since.duration(to: now) >= Self.reportAfter || spell.failedTrials >= Self.reportAfterTrials
        else { return nil }
        spell.isReported = true
        self.state = .bad(spell)
        return .began(spell.cause)
    }
}
