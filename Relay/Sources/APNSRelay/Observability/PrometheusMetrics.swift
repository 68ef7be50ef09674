package import Metrics
import Synchronization

/// A backend of swift-metrics that writes its metrics in Prometheus' text format (version 0.0.4).
///
/// Names are unchanged, as in swift-prometheus: a timer `x` is a histogram in seconds (`x_bucket`, `x_sum`, `x_count`),
/// and a recorder that does not aggregate is a gauge. The library's alerts and dashboard therefore work unchanged.
///
/// The first use of a name fixes its kind. A metric of another kind with this name gets a handler that exports nothing,
/// and so does a series above the limit. `apns_relay_metric_series_discarded_total` counts these handlers.
///
/// Recording a value takes no lock, but making a handler takes one. So keep the handlers of hot paths.
package final class PrometheusMetrics: MetricsFactory {
    package static let contentType = PrometheusFormat.contentType
    /// Counts the handlers that export nothing.
    static let discarded = MetricDefinition(
        "apns_relay_metric_series_discarded_total",
        .counter,
        unit: "series",
        "Series that are not exported, because of the limit, or because another kind of metric has the same name."
    )

    private struct Family {
        var kind: MetricDefinition.Kind
        var help: String
        /// The series by the text of their labels.
        var series: [String: Entry] = [:]
    }

    private struct Entry {
        var series: any PrometheusSeries
        /// The number of handlers of this series that exist. Metrics with equal names and labels share a series.
        var owners: Int
    }

    private struct State {
        var families: [String: Family] = [:]
        /// The name and the labels of each series. They are needed when its handler is destroyed.
        var keys: [ObjectIdentifier: (name: String, labels: String)] = [:]
        /// The family that owns each name. A histogram owns its name and three names with a suffix.
        var names: [String: String] = [:]
        var discarded = 0
    }

    private let definitions: [String: MetricDefinition]
    private let maxSeries: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - definitions: the help texts and buckets of metrics. Other metrics get a general help text and the buckets
    ///     for times.
    ///   - maxSeries: the maximum number of series. A histogram counts as one.
    init(definitions: [MetricDefinition] = RelayMetrics.table + LibraryMetrics.table, maxSeries: Int = 10_000) {
        self.definitions = Dictionary(definitions.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        self.maxSeries = maxSeries
    }

    /// A backend with the help texts of the relay's and the library's metrics, and at most 10,000 series.
    package convenience init() {
        self.init(definitions: RelayMetrics.table + LibraryMetrics.table)
    }

    /// All metrics, sorted by name and labels.
    package func text() -> String {
        let (families, discarded) = self.state.withLock { ($0.families, $0.discarded) }
        var text = ""
        for (name, family) in families.sorted(by: { $0.key < $1.key }) where !family.series.isEmpty {
            Self.writeHead(to: &text, name: name, kind: family.kind, help: family.help)
            for (labels, entry) in family.series.sorted(by: { $0.key < $1.key }) {
                entry.series.write(to: &text, name: name, labels: labels)
            }
        }
        let metric = Self.discarded
        Self.writeHead(to: &text, name: metric.name, kind: metric.kind, help: metric.meaning)
        text += "\(metric.name) \(discarded)\n"
        return text
    }

    private static func writeHead(to text: inout String, name: String, kind: MetricDefinition.Kind, help: String) {
        text += "# HELP \(name) \(PrometheusFormat.help(help))\n# TYPE \(name) \(kind.rawValue)\n"
    }

    // MARK: MetricsFactory

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        self.series(label, dimensions, .counter) { _ in PrometheusCounter() } ?? DiscardedSeries()
    }

    package func makeFloatingPointCounter(
        label: String,
        dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        self.series(label, dimensions, .counter) { _ in PrometheusCounter() } ?? DiscardedSeries()
    }

    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        self.series(label, dimensions, .gauge) { _ in PrometheusGauge() } ?? DiscardedSeries()
    }

    package func makeRecorder(
        label: String,
        dimensions: [(String, String)],
        aggregate: Bool
    ) -> any RecorderHandler {
        guard aggregate else {
            return self.series(label, dimensions, .gauge) { _ in PrometheusGauge() } ?? DiscardedSeries()
        }
        return self.series(label, dimensions, .histogram) { PrometheusHistogram(limits: $0) } ?? DiscardedSeries()
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        self.series(label, dimensions, .histogram) { PrometheusHistogram(limits: $0) } ?? DiscardedSeries()
    }

    package func destroyCounter(_ handler: any CounterHandler) { self.release(handler) }
    package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { self.release(handler) }
    package func destroyMeter(_ handler: any MeterHandler) { self.release(handler) }
    package func destroyRecorder(_ handler: any RecorderHandler) { self.release(handler) }
    package func destroyTimer(_ handler: any TimerHandler) { self.release(handler) }

    // MARK: Series

    /// The series of a name and labels; nil if it may not exist.
    private func series<Series: PrometheusSeries>(
        _ label: String,
        _ dimensions: [(String, String)],
        _ kind: MetricDefinition.Kind,
        make: (_ limits: [Double]) -> Series
    ) -> Series? {
        let name = PrometheusFormat.name(label)
        let labels = PrometheusFormat.labels(dimensions)
        return self.state.withLock { state in
            if let entry = state.families[name]?.series[labels], let series = entry.series as? Series {
                state.families[name]?.series[labels]?.owners += 1
                return series
            }
            guard state.keys.count < self.maxSeries, self.reserve(name, kind, in: &state) else {
                state.discarded += 1
                return nil
            }
            let series = make(self.definitions[name]?.buckets ?? MetricDefinition.seconds)
            state.families[name]?.series[labels] = Entry(series: series, owners: 1)
            state.keys[ObjectIdentifier(series)] = (name, labels)
            return series
        }
    }

    /// Reserves a name for a kind of metric, and creates its family if needed. Returns false if the name is taken.
    private func reserve(_ name: String, _ kind: MetricDefinition.Kind, in state: inout State) -> Bool {
        if let family = state.families[name] { return family.kind == kind }
        let written = kind == .histogram ? [name, name + "_bucket", name + "_sum", name + "_count"] : [name]
        guard name != Self.discarded.name, written.allSatisfy({ state.names[$0] == nil }) else { return false }
        for each in written { state.names[each] = name }
        let help = self.definitions[name]?.meaning ?? "A metric without a description."
        state.families[name] = Family(kind: kind, help: help)
        return true
    }

    private func release(_ handler: AnyObject) {
        let id = ObjectIdentifier(handler)
        self.state.withLock { state in
            guard let (name, labels) = state.keys[id], let entry = state.families[name]?.series[labels] else { return }
            guard entry.owners <= 1 else {
                state.families[name]?.series[labels]?.owners -= 1
                return
            }
            state.families[name]?.series[labels] = nil
            state.keys[id] = nil
        }
    }
}
