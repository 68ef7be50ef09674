import Metrics
package import PostgresPushQueue
package import SQLitePushQueue

/// The state of the file or the database behind a queue.
package enum StorageState: Sendable, Hashable {
    case file(FileState)
    case database(DatabaseState)
}

/// The gauges of the file or the database behind the queue.
struct StorageGauges {
    private struct Series: Hashable {
        var name: String
        var labels: [String: String]
    }

    private var meters: [Series: Meter] = [:]

    /// Sets the gauges. Series that the state no longer has, such as those of a dropped table, are no longer exported.
    mutating func set(_ state: StorageState, factory: any MetricsFactory) {
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

    private static func values(_ state: StorageState) -> [Series: Double] {
        switch state {
        case .file(let state): self.values(state)
        case .database(let state): self.values(state)
        }
    }

    private static func values(_ state: FileState) -> [Series: Double] {
        [
            Series(name: RelayMetrics.fileBytes.name, labels: ["file": "database"]): Double(state.databaseBytes),
            Series(name: RelayMetrics.fileBytes.name, labels: ["file": "log"]): Double(state.logBytes),
            Series(name: RelayMetrics.diskFree.name, labels: [:]): Double(state.disk.free),
            Series(name: RelayMetrics.diskSize.name, labels: [:]): Double(state.disk.size),
        ]
    }

    private static func values(_ state: DatabaseState) -> [Series: Double] {
        var values: [Series: Double] = [:]
        func add(_ metric: MetricDefinition, _ value: Double, _ labels: [String: String] = [:]) {
            values[Series(name: metric.name, labels: labels)] = value
        }
        for (holder, age) in state.oldest {
            add(RelayMetrics.databaseOldest, age.inSeconds, ["holder": holder.rawValue])
        }
        for table in state.tables {
            add(RelayMetrics.databaseTableBytes, Double(table.bytes), ["table": table.name])
            add(RelayMetrics.databaseTableRows, Double(table.liveRows), ["table": table.name, "state": "live"])
            add(RelayMetrics.databaseTableRows, Double(table.deadRows), ["table": table.name, "state": "dead"])
        }
        return values
    }
}
