/// The name, kind and meaning of a metric.
struct MetricDefinition: Sendable, Hashable {
    enum Kind: String, Sendable, Hashable {
        case counter, gauge, histogram
    }

    var name: String
    var kind: Kind
    /// The unit of its values, for the documentation.
    var unit: String
    /// The meaning, for the help text in the export and for the documentation.
    var meaning: String
    /// The metric's own labels, besides those that Prometheus adds.
    var labels: [String] = []
    /// Upper limits of a histogram's buckets, ascending.
    var buckets = MetricDefinition.seconds

    init(_ name: String, _ kind: Kind, unit: String, _ meaning: String) {
        self.name = name
        self.kind = kind
        self.unit = unit
        self.meaning = meaning
    }

    // MARK: Rows of a table

    static func counter(_ name: String, _ unit: String, _ labels: [String] = []) -> Self {
        var metric = Self(name, .counter, unit: unit, "")
        metric.labels = labels
        return metric
    }

    static func gauge(_ name: String, _ unit: String, _ labels: [String] = []) -> Self {
        var metric = Self(name, .gauge, unit: unit, "")
        metric.labels = labels
        return metric
    }

    static func histogram(
        _ name: String,
        _ unit: String,
        _ labels: [String] = [],
        buckets: [Double] = MetricDefinition.seconds
    ) -> Self {
        var metric = Self(name, .histogram, unit: unit, "")
        metric.labels = labels
        metric.buckets = buckets
        return metric
    }

    func means(_ meaning: String) -> Self {
        var metric = self
        metric.meaning = meaning
        return metric
    }

    /// The buckets of times: 1 ms to 30 s.
    static let seconds = [
        0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
    ]
    /// The buckets of counts: 1 to 5,000.
    static let counts: [Double] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000]
}
