import Metrics
import PostgresPushQueue

/// The gauges of the database behind the queue.
struct DatabaseGauges {
    private struct Series: Hashable {
        var name: String
        var labels: [String: String]
    }

    private var meters: [Series: Meter] = [:]

    /// Sets the gauges. Series that the state no longer has, such as those of hidden standbys, are no longer exported.
    mutating func set(_ state: DatabaseState, factory: any MetricsFactory) {
        let values = Self.values(state)
        for series in self.meters.keys where values[series] == nil {
            self.meters.removeValue(forKey: series)?.destroy()
        }
        for (series, value) in values {
            let dimensions = series.labels.map { ($0.key, $0.value) }
            let meter = self.meters[series] ?? Meter(label: series.name, dimensions: dimensions, factory: factory)
            self.meters[series] = meter
            meter.set(value)
        }
    }

    private static func values(_ state: DatabaseState) -> [Series: Double] {
        var values: [Series: Double] = [:]
        func add(_ metric: MetricDefinition, _ value: Double, _ labels: [String: String] = [:]) {
            values[Series(name: metric.name, labels: labels)] = value
        }
        add(RelayMetrics.databaseConnections, Double(state.connections))
        add(RelayMetrics.databaseMaxConnections, Double(state.maxConnections))
        for (holder, age) in state.oldest {
            add(RelayMetrics.databaseOldest, age.inSeconds, ["holder": holder.rawValue])
        }
        for table in state.tables {
            add(RelayMetrics.databaseTableBytes, Double(table.bytes), ["table": table.name])
            add(RelayMetrics.databaseTableRows, Double(table.liveRows), ["table": table.name, "state": "live"])
            add(RelayMetrics.databaseTableRows, Double(table.deadRows), ["table": table.name, "state": "dead"])
        }
        add(RelayMetrics.databaseStandbysRequired, Double(state.requiredStandbys))
        for (mode, standbys) in [("synchronous", state.synchronous), ("asynchronous", state.asynchronous)] {
            guard let standbys else { continue }
            add(RelayMetrics.databaseStandbys, Double(standbys.count), ["mode": mode])
            add(RelayMetrics.databaseStandbyLag, standbys.lag.inSeconds, ["mode": mode])
            add(RelayMetrics.databaseStandbyLagBytes, Double(standbys.lagBytes), ["mode": mode])
        }
        return values
    }
}
