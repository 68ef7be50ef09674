import Metrics
import Synchronization

/// A backend of swift-metrics that keeps what it is told and writes it in Prometheus' text format (version 0.0.4).
///
/// The names are those of the metrics, as swift-prometheus has them: a timer `x` is a histogram in seconds (`x_bucket`,
/// `x_sum`, `x_count`), a recorder that does not aggregate is a gauge.
final class PrometheusText: MetricsFactory {
    /// Upper limits of a timer's buckets, in seconds.
    static let buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]

    fileprivate enum Kind: String, Sendable {
        case counter, gauge, histogram
    }

    private struct Key: Hashable, Sendable {
        var name: String
        /// As they are written, in the order of their names.
        var labels: String
    }

    private let series = Mutex<[Key: Series]>([:])

    /// Everything, sorted by name.
    func text() -> String {
        let all = self.series.withLock { $0.map { ($0.key, $0.value) } }
            .sorted { ($0.0.name, $0.0.labels) < ($1.0.name, $1.0.labels) }
        var lines: [String] = []
        var name = ""
        for (key, series) in all {
            if key.name != name {
                name = key.name
                lines.append("# TYPE \(name) \(series.kind.rawValue)")
            }
            lines += series.lines(name: key.name, labels: key.labels)
        }
        return lines.map { $0 + "\n" }.joined()
    }

    // MARK: MetricsFactory

    func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        self.make(label, dimensions, .counter)
    }

    func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        self.make(label, dimensions, aggregate ? .histogram : .gauge)
    }

    func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        self.make(label, dimensions, .gauge)
    }

    func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        self.make(label, dimensions, .histogram)
    }

    func destroyCounter(_ handler: any CounterHandler) { self.forget(handler) }
    func destroyRecorder(_ handler: any RecorderHandler) { self.forget(handler) }
    func destroyMeter(_ handler: any MeterHandler) { self.forget(handler) }
    func destroyTimer(_ handler: any TimerHandler) { self.forget(handler) }

    private func make(_ label: String, _ dimensions: [(String, String)], _ kind: Kind) -> Series {
        let labels = dimensions.sorted { $0.0 < $1.0 }.map { "\(Self.name($0.0))=\"\(Self.escaped($0.1))\"" }
        let key = Key(name: Self.name(label), labels: labels.joined(separator: ","))
        return self.series.withLock { all in
            if let series = all[key], series.kind == kind { return series }
            let series = Series(kind)
            all[key] = series
            return series
        }
    }

    private func forget(_ handler: Any) {
        guard let series = handler as? Series else { return }
        self.series.withLock { all in
            guard let key = all.first(where: { $0.value === series })?.key else { return }
            all[key] = nil
        }
    }

    /// Letters, digits and underscores.
    private static func name(_ text: String) -> String {
        String(text.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" })
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }

    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        return value == value.rounded() && value.magnitude < 1e15 ? "\(Int64(value))" : "\(value)"
    }
}

/// One series of any kind.
private final class Series: CounterHandler, RecorderHandler, MeterHandler, TimerHandler {
    private struct State {
        /// Of a counter or a gauge; the sum of a histogram.
        var value = 0.0
        var count = 0
        var counts = [Int](repeating: 0, count: PrometheusText.buckets.count)
    }

    let kind: PrometheusText.Kind
    private let state = Mutex(State())

    init(_ kind: PrometheusText.Kind) { self.kind = kind }

    func increment(by amount: Int64) { self.state.withLock { $0.value += Double(amount) } }
    func increment(by amount: Double) { self.state.withLock { $0.value += amount } }
    func decrement(by amount: Double) { self.state.withLock { $0.value -= amount } }
    func reset() { self.state.withLock { $0 = State() } }
    func set(_ value: Int64) { self.record(Double(value)) }
    func set(_ value: Double) { self.record(value) }
    func record(_ value: Int64) { self.record(Double(value)) }
    func recordNanoseconds(_ duration: Int64) { self.record(Double(duration) / 1e9) }

    func record(_ value: Double) {
        self.state.withLock { state in
            guard self.kind == .histogram else {
                state.value = value
                return
            }
            state.value += value
            state.count += 1
            for (index, limit) in PrometheusText.buckets.enumerated() where value <= limit {
                state.counts[index] += 1
            }
        }
    }

    func lines(name: String, labels: String) -> [String] {
        let state = self.state.withLock { $0 }
        let braces = labels.isEmpty ? "" : "{\(labels)}"
        guard self.kind == .histogram else { return ["\(name)\(braces) \(PrometheusText.number(state.value))"] }
        let comma = labels.isEmpty ? "" : ","
        let buckets = zip(PrometheusText.buckets, state.counts).map { limit, count in
            "\(name)_bucket{\(labels)\(comma)le=\"\(PrometheusText.number(limit))\"} \(count)"
        }
        return buckets + [
            "\(name)_bucket{\(labels)\(comma)le=\"+Inf\"} \(state.count)",
            "\(name)_sum\(braces) \(PrometheusText.number(state.value))",
            "\(name)_count\(braces) \(state.count)",
        ]
    }
}
