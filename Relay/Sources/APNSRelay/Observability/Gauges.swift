import Metrics

/// Gauges by their names and labels. Each is made when it is first set.
struct Gauges {
    typealias Labels = [String: String]

    private struct Series: Hashable {
        var name: String
        var labels: Labels
    }

    private let factory: any MetricsFactory
    private var meters: [Series: Meter] = [:]

    init(factory: any MetricsFactory) {
        self.factory = factory
    }

    mutating func set(_ name: String, _ labels: Labels = [:], to value: Double) {
        let series = Series(name: name, labels: labels)
        let meter =
            self.meters[series]
            ?? Meter(label: name, dimensions: labels.map { ($0.key, $0.value) }, factory: self.factory)
        self.meters[series] = meter
        meter.set(value)
    }

    /// Sets all gauges of a name, by their labels. Those that have no value any more are no longer exported.
    mutating func replace(_ name: String, with values: [Labels: Double]) {
        for series in self.meters.keys where series.name == name && values[series.labels] == nil {
            self.meters.removeValue(forKey: series)?.destroy()
        }
        for (labels, value) in values { self.set(name, labels, to: value) }
    }
}
