import Metrics
import Synchronization

/// Hands samples to swift-metrics. Its handlers are made when they are first needed and kept.
final class MetricExporter: Sendable {
    fileprivate struct Key: Hashable {
        var name: String
        var labels: [MetricSample.Label]
    }

    private struct State {
        var counters: [Key: Counter] = [:]
        /// What was handed over, whatever the common labels were then.
        var totals: [Key: Int] = [:]
        var gauges: [Key: Gauge] = [:]
        var timers: [Key: Timer] = [:]
        var common: [MetricSample.Label] = []
    }

    private let factory: any MetricsFactory
    private let state = Mutex(State())

    /// Nil: nobody wants metrics.
    init?(factory: any MetricsFactory) {
        if factory is NOOPMetricsHandler { return nil }
        self.factory = factory
    }

    /// - Parameter common: labels of each sample. With others than before new series begin; the gauges of the old ones end.
    func export(_ samples: [MetricSample], common: [MetricSample.Label]) {
        self.state.withLock { state in
            if state.common != common {
                for gauge in state.gauges.values { gauge.destroy() }
                state.gauges = [:]
                state.common = common
            }
            for sample in samples {
                let key = Key(name: sample.name, labels: common + sample.labels)
                switch sample.value {
                case .counter(let total):
                    self.add(total, of: Key(name: sample.name, labels: sample.labels), key, &state)
                case .gauge(let value): self.set(value, key, &state)
                case .timer(let values): self.record(values, key, &state)
                }
            }
        }
    }

    /// What a client that has ended measures stays nobody's last word.
    func finish() {
        let gauges = self.state.withLock { state in
            defer { state.gauges = [:] }
            return state.gauges
        }
        for gauge in gauges.values { gauge.destroy() }
    }

    private func add(_ total: Int, of plain: Key, _ key: Key, _ state: inout State) {
        let counter = state.counters[key] ?? Counter(label: key.name, dimensions: key.pairs, factory: self.factory)
        // Made at zero, too, so that a first event is seen as a rise.
        if state.counters.updateValue(counter, forKey: key) == nil { counter.increment(by: 0) }
        let before = state.totals[plain] ?? 0
        guard total > before else { return }
        counter.increment(by: total - before)
        state.totals[plain] = total
    }

    private func set(_ value: Double, _ key: Key, _ state: inout State) {
        let gauge = state.gauges[key] ?? Gauge(label: key.name, dimensions: key.pairs, factory: self.factory)
        state.gauges[key] = gauge
        gauge.record(value)
    }

    private func record(_ values: [Int64], _ key: Key, _ state: inout State) {
        let timer = state.timers[key] ?? Timer(label: key.name, dimensions: key.pairs, factory: self.factory)
        state.timers[key] = timer
        for value in values { timer.recordNanoseconds(value) }
    }
}

extension MetricExporter.Key {
    fileprivate var pairs: [(String, String)] { self.labels.map { ($0.name, $0.value) } }
}
