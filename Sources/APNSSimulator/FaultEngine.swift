/// Decides which faults a request meets. Pure: the same requests in the same order with the same seed meet the same
/// faults.
struct FaultEngine: Sendable {
    /// What a request meets.
    struct Draw: Sendable {
        var delay = Duration.zero
        /// SETTINGS_MAX_CONCURRENT_STREAMS to be sent.
        var settings: UInt32?
        /// What decides the request's fate; nil: APNs' rules do.
        var decisive: FaultEffect.Kind?
        var count = 0
    }

    private struct Armed: Sendable {
        var fault: Fault
        var seen = 0
        var applied = 0
        var random: SeededRandom
        var isEarly: Bool

        var isSpent: Bool { self.fault.when.times.map { self.applied >= $0 } ?? false }
    }

    private var armed: [Armed] = []
    private(set) var hasEarlyFaults = false
    private var random: SeededRandom

    init(seed: UInt64) {
        self.random = SeededRandom(seed: seed)
    }

    var isEmpty: Bool { self.armed.isEmpty }

    mutating func inject(_ fault: Fault) {
        var isEarly = false
        if case .earlyAnswer = fault.effect.kind { isEarly = true }
        self.armed.append(
            Armed(fault: fault, random: SeededRandom(seed: self.random.next()), isEarly: isEarly)
        )
        self.clean()
    }

    mutating func removeAll() {
        self.armed = []
        self.hasEarlyFaults = false
    }

    /// - Parameters:
    ///   - isEarly: the request's headers are complete, its body may not be. Faults that answer early are asked
    ///     then, all others when the request is complete.
    ///   - deviceToken: in lower case.
    mutating func draw(isEarly: Bool, connection: Int, deviceToken: () -> String) -> Draw {
        var draw = Draw()
        var someSpent = false
        var token: String?
        for index in self.armed.indices where self.armed[index].isEarly == isEarly {
            let when = self.armed[index].fault.when
            if let only = when.connection, only != connection { continue }
            if let tokens = when.deviceTokens {
                let text = token ?? deviceToken()
                token = text
                guard tokens.contains(text) else { continue }
            }
            // What another fault has decided is not counted by this one.
            guard draw.decisive == nil, !self.armed[index].isSpent else { continue }
            self.armed[index].seen += 1
            guard self.armed[index].seen > when.skip else { continue }
            guard when.probability >= 1 || self.armed[index].random.unit() < when.probability else { continue }
            self.armed[index].applied += 1
            if self.armed[index].isSpent { someSpent = true }
            draw.count += 1
            switch self.armed[index].fault.effect.kind {
            case .delay(let distribution):
                draw.delay += max(.zero, distribution.draw(using: &self.armed[index].random))
            case .settings(let limit): draw.settings = limit
            case let kind: draw.decisive = kind
            }
        }
        if someSpent { self.clean() }
        return draw
    }

    private mutating func clean() {
        self.armed.removeAll { $0.isSpent }
        self.hasEarlyFaults = self.armed.contains { $0.isEarly }
    }
}

/// The natural logarithm, so that no C library has to be imported for it.
enum Logarithm {
    /// - Parameter x: above 0.
    static func natural(_ x: Double) -> Double {
        guard x > 0, x.isFinite else { return -.infinity }
        // x = significand · 2^exponent, and ln(significand) = 2 · artanh((s − 1) / (s + 1)) for 1 ≤ s < 2.
        let fraction = (x.significand - 1) / (x.significand + 1)
        var term = fraction
        var sum = 0.0
        for odd in stride(from: 1, through: 41, by: 2) {
            sum += term / Double(odd)
            term *= fraction * fraction
        }
        return 2 * sum + Double(x.exponent) * 0.693_147_180_559_945_3
    }
}
