import Metrics
import Synchronization

/// The values of one metric with one set of labels. Any number of threads may use a series. Its functions take no lock.
protocol PrometheusSeries: AnyObject, Sendable {
    /// Appends the lines of the series.
    ///
    /// - Parameters:
    ///   - text: receives the lines, each with a line break.
    ///   - name: the metric's name.
    ///   - labels: the text between the braces; empty if there are no labels.
    func write(to text: inout String, name: String, labels: String)
}

extension PrometheusSeries {
    fileprivate func line(_ text: inout String, _ name: String, _ labels: String, _ value: String) {
        text += name
        if !labels.isEmpty { text += "{\(labels)}" }
        text += " \(value)\n"
    }
}

/// A number that only grows. Negative, infinite and undefined (NaN) amounts are ignored.
final class PrometheusCounter: PrometheusSeries, CounterHandler, FloatingPointCounterHandler {
    private let whole = Atomic<Int64>(0)
    private let fraction = AtomicDouble()

    func increment(by amount: Int64) {
        guard amount > 0 else { return }
        self.whole.wrappingAdd(amount, ordering: .relaxed)
    }

    func increment(by amount: Double) {
        guard amount > 0, amount.isFinite else { return }
        self.fraction.add(amount)
    }

    func reset() {
        self.whole.store(0, ordering: .relaxed)
        self.fraction.store(0)
    }

    func write(to text: inout String, name: String, labels: String) {
        let whole = self.whole.load(ordering: .relaxed)
        let fraction = self.fraction.load()
        let value = fraction == 0 ? "\(whole)" : PrometheusFormat.number(Double(whole) + fraction)
        self.line(&text, name, labels, value)
    }
}

/// A number that goes up and down.
final class PrometheusGauge: PrometheusSeries, MeterHandler, RecorderHandler {
    private let value = AtomicDouble()

    func set(_ value: Int64) { self.value.store(Double(value)) }
    func set(_ value: Double) { self.value.store(value) }
    func increment(by amount: Double) { self.value.add(amount) }
    func decrement(by amount: Double) { self.value.add(-amount) }
    func record(_ value: Int64) { self.set(value) }
    func record(_ value: Double) { self.set(value) }

    func write(to text: inout String, name: String, labels: String) {
        self.line(&text, name, labels, PrometheusFormat.number(self.value.load()))
    }
}

/// The number of values up to each limit, and the sum of all values. Infinite values and NaN are ignored.
final class PrometheusHistogram: PrometheusSeries, TimerHandler, RecorderHandler {
    /// A box, because an atomic cannot be an element of an array.
    private final class Count: Sendable {
        let value = Atomic<Int64>(0)
    }

    private let limits: [Double]
    /// One count for each limit, and one for the values above the last limit.
    private let counts: [Count]
    private let sum = AtomicDouble()

    /// - Parameter limits: the upper limits of the buckets, ascending.
    init(limits: [Double]) {
        self.limits = limits
        self.counts = (0...limits.count).map { _ in Count() }
    }

    func recordNanoseconds(_ duration: Int64) { self.record(Double(duration) / 1e9) }
    func record(_ value: Int64) { self.record(Double(value)) }

    func record(_ value: Double) {
        guard value.isFinite else { return }
        let bucket = self.limits.firstIndex { value <= $0 } ?? self.limits.count
        self.counts[bucket].value.wrappingAdd(1, ordering: .relaxed)
        self.sum.add(value)
    }

    func write(to text: inout String, name: String, labels: String) {
        let comma = labels.isEmpty ? "" : ","
        var total: Int64 = 0
        for (index, count) in self.counts.enumerated() {
            // The total is the sum of the buckets, so that the lines are consistent while values are being recorded.
            total &+= count.value.load(ordering: .relaxed)
            let limit = index < self.limits.count ? PrometheusFormat.number(self.limits[index]) : "+Inf"
            self.line(&text, name + "_bucket", "\(labels)\(comma)le=\"\(limit)\"", "\(total)")
        }
        self.line(&text, name + "_sum", labels, PrometheusFormat.number(self.sum.load()))
        self.line(&text, name + "_count", labels, "\(total)")
    }
}

/// A handler that ignores all values, for a metric that is not exported.
final class DiscardedSeries: CounterHandler, FloatingPointCounterHandler, MeterHandler, RecorderHandler, TimerHandler {
    func increment(by amount: Int64) {}
    func increment(by amount: Double) {}
    func decrement(by amount: Double) {}
    func reset() {}
    func set(_ value: Int64) {}
    func set(_ value: Double) {}
    func record(_ value: Int64) {}
    func record(_ value: Double) {}
    func recordNanoseconds(_ duration: Int64) {}
}

/// A `Double` that several threads can change.
private final class AtomicDouble: Sendable {
    private let bits = Atomic<UInt64>(0)

    func load() -> Double { Double(bitPattern: self.bits.load(ordering: .relaxed)) }
    func store(_ value: Double) { self.bits.store(value.bitPattern, ordering: .relaxed) }

    func add(_ amount: Double) {
        var bits = self.bits.load(ordering: .relaxed)
        while true {
            let sum = (Double(bitPattern: bits) + amount).bitPattern
            let (exchanged, original) = self.bits.weakCompareExchange(
                expected: bits,
                desired: sum,
                ordering: .relaxed
            )
            if exchanged { return }
            bits = original
        }
    }
}
