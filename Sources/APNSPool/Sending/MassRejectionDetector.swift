import APNSModel
import Synchronization

/// Detects a wrong environment or topic by the number of rejected device tokens. Without it, such a mistake would look
/// like a million invalid tokens.
///
/// Each bulk call has a detector that stops the call. The client has one for its status and its log, which never stops
/// sending. It records the responses to single pushes, those of bulk calls whose limits are off, and the tokens that work
/// in every bulk call.
///
/// The detector counts distinct tokens, each with its latest response. A window begins with a rejection, so accepted
/// pushes cost nothing in normal operation. When the window is full, the next token begins a new one.
///
/// Responses arrive in any order, and rejections may take longer than acceptances. So a window has at least as many tokens
/// as pushes were in flight at a rejection in it or in the one before.
final class MassRejectionDetector: Sendable {
    /// The rejections at the moment of detection, and the number of tokens among which they had to occur.
    struct Finding: Equatable {
        var rejections: Int
        var window: Int
    }

    private struct State {
        let limits: MassRejectionLimits
        /// Whether each token of the window is rejected, by the token's hash.
        var tokens: [Int: Bool] = [:]
        var rejections = 0
        /// The most tokens in the window.
        var size: Int
        /// The most pushes that were in flight at a rejection in the window, up to 100,000.
        var inFlight = 0
        var isDetected = false

        init(_ limits: MassRejectionLimits) {
            self.limits = limits
            self.size = limits.window
        }

        /// The number of rejections in the window at which mass rejection is detected: the configured share, rounded up.
        /// The product cannot overflow, because both numbers are at most 100,000.
        var limit: Int { (self.limits.rejections * self.size + self.limits.window - 1) / self.limits.window }

        mutating func beginWindow() {
            self.tokens.removeAll(keepingCapacity: true)
            self.rejections = 0
            self.size = max(self.limits.window, self.inFlight)
            self.inFlight = 0
        }

        mutating func record(_ token: DeviceToken, isRejected: Bool) {
            let key = token.hashValue
            if self.tokens.count >= self.size, self.tokens[key] == nil { self.beginWindow() }
            let wasRejected = self.tokens.updateValue(isRejected, forKey: key) ?? false
            self.rejections += (isRejected ? 1 : 0) - (wasRejected ? 1 : 0)
        }
    }

    /// Whether the limits turn the detector off.
    let isOff: Bool
    private let state: Mutex<State>
    /// Whether tokens that work must be recorded.
    private let isAttentive = Atomic(false)

    init(limits: MassRejectionLimits) {
        self.isOff = limits.rejections > limits.window
        // If the detector is off, it still shows what a bulk call detects. The default limits decide when that is over.
        self.state = Mutex(State(self.isOff ? MassRejectionLimits() : limits))
    }

    /// True from the detection until most tokens work again.
    var isDetected: Bool { self.state.withLock { $0.isDetected } }

    /// Whether this rejection can be caused by a wrong environment or topic.
    static func counts(_ rejection: Rejection) -> Bool {
        switch rejection.reason {
        case .some(.badDeviceToken), .some(.deviceTokenNotForTopic), .some(.topicDisallowed): true
        default: false
        }
    }

    /// Records a rejected device token.
    ///
    /// - Parameter inFlight: the number of pushes in flight. If it is larger than the window, the window grows to that
    ///   number, up to 100,000, and the limit in proportion.
    /// - Returns: the finding if this rejection is the one at which mass rejection is detected.
    func rejected(_ token: DeviceToken, inFlight: Int) -> Finding? {
        if self.isOff { return nil }
        return self.change { state in
            state.record(token, isRejected: true)
            state.inFlight = max(state.inFlight, min(inFlight, 100_000))
            state.size = max(state.size, state.inFlight)
            guard !state.isDetected, state.rejections >= state.limit else { return nil }
            defer { state.beginWindow() }
            state.isDetected = true
            return Finding(rejections: state.rejections, window: state.size)
        }
    }

    /// Records a push that was accepted, or a token that is no longer registered, which also proves that the environment
    /// and the topic are right.
    ///
    /// - Returns: whether this ends a mass rejection: so many tokens of the window work that less than half of the limit
    ///   can be rejected.
    func works(_ token: DeviceToken) -> Bool {
        guard self.isAttentive.load(ordering: .relaxed) else { return false }
        return self.change { state in
            state.record(token, isRejected: false)
            let working = state.tokens.count - state.rejections
            let ends = state.isDetected && (state.size - working) * 2 < state.limit
            if ends {
                state.isDetected = false
                state.beginWindow()
            } else if state.rejections == 0, !state.isDetected {
                // The window begins with the next rejection.
                state.tokens.removeAll(keepingCapacity: true)
            }
            return ends
        }
    }

    /// Records what the detector of a bulk call has detected.
    ///
    /// - Returns: whether it is new.
    func detected() -> Bool {
        self.change { state in
            if state.isDetected { return false }
            state.isDetected = true
            state.beginWindow()
            return true
        }
    }

    private func change<Result>(_ body: (inout State) -> Result) -> Result {
        self.state.withLock { state in
            let result = body(&state)
            self.isAttentive.store(state.rejections > 0 || state.isDetected, ordering: .relaxed)
            return result
        }
    }
}
