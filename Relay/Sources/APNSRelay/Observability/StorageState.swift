package import PostgresPushQueue
package import SQLitePushQueue

/// The state of the file or the database behind a queue.
package enum StorageState: Sendable, Hashable {
    case file(FileState)
    case database(DatabaseState)

    /// Sets the gauges of the state. Those that it no longer has, such as those of a dropped table, are no longer exported.
    func set(_ gauges: inout Gauges) {
        switch self {
        case .file(let state):
            gauges.set("apns_relay_file_bytes", ["file": "database"], to: Double(state.databaseBytes))
            gauges.set("apns_relay_file_bytes", ["file": "log"], to: Double(state.logBytes))
            gauges.set("apns_relay_disk_free_bytes", to: Double(state.disk.available))
            gauges.set("apns_relay_disk_size_bytes", to: Double(state.disk.size))
        case .database(let state):
            let ages = state.oldest.map { (["holder": $0.key.rawValue], $0.value.inSeconds) }
            let bytes = state.tables.map { (["table": $0.name], Double($0.bytes)) }
            let rows = state.tables.flatMap { table in
                [
                    (["table": table.name, "state": "live"], Double(table.liveRows)),
                    (["table": table.name, "state": "dead"], Double(table.deadRows)),
                ]
            }
            for (name, values) in [
                ("apns_relay_database_oldest_transaction_seconds", ages), ("apns_relay_database_table_bytes", bytes),
                ("apns_relay_database_table_rows", rows),
            ] {
                gauges.replace(name, with: Dictionary(values) { first, _ in first })
            }
        }
    }
}
