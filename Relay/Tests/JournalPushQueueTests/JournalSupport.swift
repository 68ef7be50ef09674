import APNSModel
import Foundation
import GRDB
import JournalPushQueue
import PushQueue

enum TestPush {
    static let route = Route(app: "fern", environment: "production", lane: .bulk)

    static func make(
        _ now: QueueTime,
        due: QueueTime? = nil,
        token: String = "0123456789abcdef",
        supersedes: String? = nil,
        bytes: Int = 20
    ) throws -> NewPush {
        NewPush(
            id: .random(),
            route: Self.route,
            token: try DeviceToken(token),
            push: try PreparedPush(
                topic: "com.example.fern",
                pushType: .alert,
                payload: Array("{\"a\":\"\(String(repeating: "x", count: bytes))\"}".utf8)
            ),
            caller: "shop",
            notBefore: due ?? now,
            deadline: now.advanced(by: .seconds(86_400)),
            supersedes: supersedes.flatMap { SupersedeKey(rawValue: $0) }
        )
    }
}

enum CopyContent {
    /// All rows of a copy's tables, except for the one in which copies differ.
    static func rows(of file: String) throws -> [String: [String]] {
        let queue = try DatabaseQueue(path: file)
        defer { try? queue.close() }
        return try queue.read { db in
            let tables = try String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE type = 'table'")
            var rows: [String: [String]] = [:]
            for table in tables where table != "process" {
                rows[table] = try Row.fetchAll(db, sql: "SELECT * FROM \(table)").map { "\($0)" }.sorted()
            }
            return rows
        }
    }
}

/// Repeats until it is true, at most 20 s.
func eventually(_ condition: () async throws -> Bool) async throws -> Bool {
    let start = ContinuousClock.now
    while try await !condition() {
        guard start.duration(to: .now) < .seconds(20) else { return false }
        try await Task.sleep(for: .milliseconds(1))
    }
    return true
}
