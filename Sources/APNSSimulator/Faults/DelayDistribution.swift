internal import APNSBasics

/// The distribution of a response's delay.
public enum DelayDistribution: Sendable, Hashable {
    /// A constant delay.
    case fixed(Duration)
    /// A uniform distribution between the two delays.
    case uniform(Duration, Duration)
    /// An exponential distribution with this mean: mostly short, sometimes long. Limited to 20 times the mean.
    case exponential(mean: Duration)
    /// A log-normal distribution, which is typical of network latencies: half of the delays are below the median.
    /// `spread` is the standard deviation of the logarithm (0.5: one in twenty above 2.3 medians; 1: above 5.2).
    /// Limited to 1000 medians.
    case logNormal(median: Duration, spread: Double)

    /// The longest delay: 30 days.
    static let longest = Duration.seconds(30 * 86_400)

    func draw(using random: inout SplitMix64) -> Duration {
        let drawn: Duration =
            switch self {
            case .fixed(let duration): duration
            case .uniform(let low, let high): low + (high - low) * random.unit()
            case .exponential(let mean): mean * min(20, -Logarithm.natural(1 - random.unit()))
            case .logNormal(let median, let spread): median * Self.logNormalFactor(spread, &random)
            }
        return min(max(drawn, .zero), Self.longest)
    }

    /// The sum of twelve uniform numbers approximates a normal distribution (mean 6, variance 1), and is equal on every
    /// machine.
    private static func logNormalFactor(_ spread: Double, _ random: inout SplitMix64) -> Double {
        let normal = (0..<12).reduce(-6.0) { sum, _ in sum + random.unit() }
        return min(1000, Logarithm.inverse(spread.isFinite ? spread * normal : 0))
    }
}

/// The natural logarithm and its inverse. They need no C library and return equal numbers on every machine.
enum Logarithm {
    /// - Parameter x: a number above 0.
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
        return 2 * sum + Double(x.exponent) * self.ofTwo
    }

    /// e to the power of `x`. `x` is clamped to -700 to 700.
    static func inverse(_ x: Double) -> Double {
        let x = min(max(x, -700), 700)
        let exponent = (x / self.ofTwo).rounded()
        let rest = x - exponent * self.ofTwo
        var term = 1.0
        var sum = 1.0
        for number in 1...20 {
            term *= rest / Double(number)
            sum += term
        }
        return Double(sign: .plus, exponent: Int(exponent), significand: sum)
    }

    private static let ofTwo = 0.693_147_180_559_945_3
}

extension Duration {
    var inMilliseconds: Double { self / .milliseconds(1) }
}
