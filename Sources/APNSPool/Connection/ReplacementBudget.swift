import SupervisedPool
import Synchronization

/// Limits how many connections may be replaced because of errors (503, many 500s, missing responses, refused tokens): a
/// burst, then one per interval (default 5 s). When the budget is spent, connections are kept, so that an overloaded
/// APNs does not also face a storm of handshakes.
final class ReplacementBudget: Sendable {
    private struct State {
        var tokens: Int
        var burst: Int
        var refilledAt: MonotonicInstant?
    }

    private let interval: Duration
    private let state: Mutex<State>

    init(burst: Int, interval: Duration = .seconds(5)) {
        self.interval = interval
        self.state = Mutex(State(tokens: max(burst, 1), burst: max(burst, 1), refilledAt: nil))
    }

    func setBurst(_ burst: Int) {
        self.state.withLock { state in
            state.burst = max(burst, 1)
            state.tokens = min(state.tokens, state.burst)
        }
    }

    func take(now: MonotonicInstant) -> Bool {
        self.state.withLock { state in
            let since = state.refilledAt ?? now
            let earned = Int(min(since.duration(to: now) / self.interval, 1_000_000))
            if earned > 0 {
                state.tokens = min(state.burst, state.tokens + earned)
                state.refilledAt = since.advanced(by: self.interval * earned)
            } else if state.refilledAt == nil {
                state.refilledAt = now
            }
            guard state.tokens > 0 else { return false }
            state.tokens -= 1
            return true
        }
    }
}
