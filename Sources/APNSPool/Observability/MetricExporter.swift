import Metrics
import Synchronization

/// Passes samples to swift-metrics. Handlers are created on first use and kept.
final class MetricExporter: Sendable {
    fileprivate struct Key: Hashable {
        var name: String
        var labels: [MetricSample.Label]
    }

    private struct State {
        var counters: [Key: Counter] = [:]
        /// The totals passed on so far, whatever the common labels were. These keys do not contain them.
        var totals: [Key: Int] = [:]
        var gauges: [Key: Gauge] = [:]
        var timers: [Key: Timer] = [:]
        var common: [MetricSample.Label] = []
    }

    private let factory: any MetricsFactory
    private let state = Mutex(State())

    /// Nil if there is no metrics backend.
    init?(factory: any MetricsFactory) {
        if factory is NOOPMetricsHandler { return nil }
        self.factory = factory
    }

    /// - Parameter common: Labels of every sample. When they change, new series begin and the gauges of the old ones
    ///   are destroyed.
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

    /// Destroys the gauges, so that the last values of a client that has ended are no longer reported.
    func finish() {
        let gauges = self.state.withLock { state in
            defer { state.gauges = [:] }
            return state.gauges
        }
        for gauge in gauges.values { gauge.destroy() }
    }

    private func add(_ total: Int, of plain: Key, _ key: Key, _ state: inout State) {
        let counter = state.counters[key] ?? Counter(label: key.name, dimensions: key.pairs, factory: self.factory)
        // A counter is created even if its total is zero, so that the first event appears as an increase.
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
