import SupervisedPool
import Synchronization

/// Limits the retries of channel calls after 503 and 500 to a share of the responses of the last ten seconds, but never below
/// a floor, and counts the responses to pushes. Pushes are limited by `Weather`.
final class RetryBudget: Sendable {
    private struct State {
        /// Responses in each of the last ten seconds.
        var responses = [Int](repeating: 0, count: RetryBudget.seconds)
        /// The number of those responses that report an invalid device token.
        var invalid = [Int](repeating: 0, count: RetryBudget.seconds)
        /// Retries in each of the last ten seconds.
        var retries = [Int](repeating: 0, count: RetryBudget.seconds)
        var second: Int64 = 0

        mutating func advance(to now: MonotonicInstant) -> Int {
            let second = now.nanoseconds / 1_000_000_000
            let passed = min(max(second - self.second, 0), Int64(RetryBudget.seconds))
            for step in 0..<passed {
                let index = Int((second - step) % Int64(RetryBudget.seconds))
                self.responses[index] = 0
                self.invalid[index] = 0
                self.retries[index] = 0
            }
            self.second = max(self.second, second)
            return Int(self.second % Int64(RetryBudget.seconds))
        }
    }

    private static let seconds = 10
    private let percent: Int
    private let floor: Int
    private let state = Mutex(State())

    init(percent: Int = 20, floor: Int = 100) {
        self.percent = percent
        self.floor = floor
    }

    func recordResponses(_ count: Int, invalid: Int = 0, now: MonotonicInstant) {
        self.state.withLock { state in
            let index = state.advance(to: now)
            state.responses[index] += count
            state.invalid[index] += invalid
        }
    }

    /// The share of the last ten seconds' responses that report an invalid device token; nil if there were no
    /// responses.
    func invalidShare(now: MonotonicInstant) -> Double? {
        self.state.withLock { state in
            _ = state.advance(to: now)
            let responses = state.responses.reduce(0, +)
            return responses > 0 ? Double(state.invalid.reduce(0, +)) / Double(responses) : nil
        }
    }

    /// Takes one retry from the budget. Returns false if the budget is used up.
    func take(now: MonotonicInstant) -> Bool {
        self.state.withLock { state in
            let index = state.advance(to: now)
            let allowed = max(self.floor, state.responses.reduce(0, +) * self.percent / 100)
            guard state.retries.reduce(0, +) < allowed else { return false }
            state.retries[index] += 1
            return true
        }
    }
}
