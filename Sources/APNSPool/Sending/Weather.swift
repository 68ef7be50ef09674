import SupervisedPool
import Synchronization

/// The `WeatherStateMachine` of one credential, shared by its connections and by everything that sends with it.
///
/// Connections report results from their event loops, and each new `SendRoute` asks for admission. A change of the state
/// makes the cached route outdated. In fair weather, a tick of verdicts costs an atomic load and an addition, and a push
/// costs nothing.
final class Weather: Sendable {
    private struct State {
        var machine = WeatherStateMachine()
        /// The value of `verdicts` that the machine has seen.
        var seen = 0
    }

    private let state = Mutex(State())
    private let isFairNow = Atomic<Bool>(true)
    /// The verdicts of ticks without weather.
    private let verdicts = Atomic<Int>(0)
    private let onChange: @Sendable () -> Void
    private let onEvent: @Sendable (WeatherStateMachine.Event) -> Void

    /// - Parameters:
    ///   - onChange: Called after each change that may let a waiting push proceed.
    ///   - onEvent: Called when a spell is reported, and when it has ended. Called on event loops: must return at once.
    init(
        onChange: @escaping @Sendable () -> Void = {},
        onEvent: @escaping @Sendable (WeatherStateMachine.Event) -> Void = { _ in }
    ) {
        self.onChange = onChange
        self.onEvent = onEvent
    }

    /// Whether pushes are sent without limits.
    var isFair: Bool { self.isFairNow.load(ordering: .relaxed) }

    /// The cause of a reported spell; nil while pushes are delivered.
    func reported(at now: MonotonicInstant) -> WeatherStateMachine.Cause? {
        self.isFair ? nil : self.state.withLock { $0.machine.reported(at: now) }
    }

    func observe(_ results: WeatherStateMachine.Results, now: MonotonicInstant) {
        if results.weather == 0, self.isFair {
            if results.verdicts > 0 { self.verdicts.wrappingAdd(results.verdicts, ordering: .relaxed) }
            return
        }
        self.change { state in
            let total = self.verdicts.load(ordering: .relaxed)
            let earlier = total &- state.seen
            state.seen = total
            if state.machine.isFair, earlier > 0 {
                _ = state.machine.observe(.init(verdicts: earlier), now: now)
            }
            return state.machine.observe(results, now: now)
        }
    }

    /// Whether a push may be sent now; if so in bad weather, it is the trial.
    func admit(now: MonotonicInstant) -> WeatherStateMachine.Admission {
        if self.isFair { return .send }
        let (admission, event) = self.state.withLock { state in
            let admission = state.machine.admit(now: now)
            return (admission, state.machine.report(now))
        }
        if let event { self.onEvent(event) }
        return admission
    }

    /// Records that a push that was admitted was not sent.
    func returnAdmission() {
        if self.isFair { return }
        self.change { state in
            state.machine.returnAdmission()
            return nil
        }
    }

    /// How many pushes may be sent by one that was admitted together with others.
    func take(_ count: Int) -> Int {
        self.isFair ? count : self.state.withLock { $0.machine.take(count) }
    }

    private func change(_ body: (inout State) -> WeatherStateMachine.Event?) {
        let (event, hasChanged) = self.state.withLock { state in
            let before = state.machine.state
            let event = body(&state)
            // Inside the lock, so that the flag always matches the machine's latest state.
            self.isFairNow.store(state.machine.isFair, ordering: .relaxed)
            return (event, before != state.machine.state)
        }
        if hasChanged { self.onChange() }
        if let event { self.onEvent(event) }
    }
}
