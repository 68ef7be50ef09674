/// Where values lie along an axis, and which of them are named.
struct Axis: Sendable {
    let ticks: [Double]
    private let low: Double
    private let high: Double
    private let isLogarithmic: Bool

    /// Linear, from and to a tick.
    init(covering values: [Double]) {
        let least = min(values.min() ?? 0, values.max() ?? 1)
        let greatest = max(values.max() ?? 1, least)
        let step = Self.niceStep((greatest - least) / 5)
        let first = (least / step).rounded(.down)
        let last = max((greatest / step).rounded(.up), first + 1)
        ticks = stride(from: first, through: last, by: 1).map { $0 * step }
        low = first * step
        high = last * step
        isLogarithmic = false
    }

    /// Logarithmic, with a tick at each value; a zero stands one step below the least.
    init(valuesOnLogarithm values: [Double]) {
        ticks = Set(values).sorted()
        let positive = ticks.filter { $0 > 0 }
        let least = positive.first ?? 1
        low = ticks.first == 0 ? least / 2.5 : least
        high = max(positive.last ?? 10, low * 1.01)
        isLogarithmic = true
    }

    /// Logarithmic, from and to one of 1, 2 and 5 of a decade.
    init(decadesCovering values: [Double]) {
        let positive = values.filter { $0 > 0 }
        let least = positive.min() ?? 1
        let greatest = max(positive.max() ?? 10, least * 2)
        var steps: [Double] = []
        var decade = 1e-6
        while decade < greatest * 10, steps.count < 100 {
            steps += [decade, 2 * decade, 5 * decade]
            decade *= 10
        }
        let first = steps.lastIndex { $0 <= least * 1.0001 } ?? 0
        let last = steps.firstIndex { $0 >= greatest * 0.9999 } ?? steps.count - 1
        ticks = Array(steps[first...max(first, last)])
        low = steps[first]
        high = steps[max(first, last)]
        isLogarithmic = true
    }

    /// From 0 to 1.
    func position(_ value: Double) -> Double {
        guard isLogarithmic else { return (value - low) / (high - low) }
        let part = Self.logarithm(max(value, low) / low) / Self.logarithm(high / low)
        return min(max(part, 0), 1)
    }

    /// 1, 2, 2.5 or 5 times a power of ten, and at least the given one.
    private static func niceStep(_ rough: Double) -> Double {
        guard rough > 0, rough.isFinite else { return 1 }
        var power = 1.0
        while power > rough { power /= 10 }
        while power * 10 <= rough { power *= 10 }
        for factor in [1, 2, 2.5, 5] where power * factor >= rough { return power * factor }
        return power * 10
    }

    /// `1,250`, `0.5`.
    static func label(_ value: Double) -> String {
        let magnitude = abs(value)
        let places = magnitude >= 100 || magnitude == magnitude.rounded() ? 0 : magnitude >= 10 ? 1 : 2
        var text = decimal(value, places: places)
        if places > 0 {
            while text.hasSuffix("0") { text.removeLast() }
            if text.hasSuffix(".") { text.removeLast() }
        }
        guard magnitude >= 1000, places == 0 else { return text }
        var grouped = ""
        for (index, digit) in text.reversed().enumerated() {
            if index > 0, index % 3 == 0, digit != "-" { grouped.append(",") }
            grouped.append(digit)
        }
        return String(grouped.reversed())
    }

    /// To the base of 2; only ratios of logarithms are used. The exponent and, for the rest, a series: the C library's
    /// function would need an import for each platform.
    private static func logarithm(_ value: Double) -> Double {
        guard value > 0, value.isFinite else { return 0 }
        let part = (value.significand - 1) / (value.significand + 1)
        var term = part
        var sum = 0.0
        for index in 0..<30 {
            sum += term / Double(2 * index + 1)
            term *= part * part
        }
        return Double(value.exponent) + 2 * sum / 0.693147180559945309
    }
}
