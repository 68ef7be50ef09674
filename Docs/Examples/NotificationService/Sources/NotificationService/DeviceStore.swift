import APNSPool
import Foundation
import GRDB

/// The device tokens of the users, and the announcements with their recipients, in one SQLite file.
struct DeviceStore: Sendable {
    private let database: DatabasePool

    init(path: String) throws {
        // A pool puts the file into WAL mode: requests can read while another one writes.
        self.database = try DatabasePool(path: path)
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { db in
            try db.execute(
                sql: """
                    CREATE TABLE device (token TEXT PRIMARY KEY, user TEXT NOT NULL, registeredAt DATETIME NOT NULL);
                    CREATE INDEX deviceOfUser ON device (user);
                    CREATE TABLE announcement (id INTEGER PRIMARY KEY, title TEXT NOT NULL);
                    CREATE TABLE recipient (
                        announcement INTEGER NOT NULL REFERENCES announcement, token TEXT NOT NULL, outcome TEXT,
                        PRIMARY KEY (announcement, token));
                    """
            )
        }
        try migrator.migrate(self.database)
    }

    /// Stores a token. The app sends it at each launch, because a later registration proves that it is valid again.
    func register(_ token: DeviceToken, of user: String, at time: Date = Date()) async throws {
        try await self.database.write { db in
            try db.execute(
                sql: "INSERT OR REPLACE INTO device (token, user, registeredAt) VALUES (?, ?, ?)",
                arguments: [token.hexadecimal, user, time]
            )
        }
    }

    func tokens(of user: String) async throws -> [String] {
        try await self.database.read { db in
            try String.fetchAll(db, sql: "SELECT token FROM device WHERE user = ? ORDER BY token", arguments: [user])
        }
    }

    /// Removes a token that APNs reported as dead, unless the device has registered it since.
    func removeIfDead(_ token: String, after outcome: PushOutcome) async throws {
        guard outcome.invalidation != nil else { return }
        try await self.database.write { db in try Self.removeIfDead(token, after: outcome, db) }
    }

    private static func removeIfDead(_ token: String, after outcome: PushOutcome, _ db: Database) throws {
        guard let end = outcome.invalidation,
            let registeredAt = try Date.fetchOne(
                db,
                sql: "SELECT registeredAt FROM device WHERE token = ?",
                arguments: [token]
            ),
            end.shouldRemove(registeredAt: registeredAt)
        else { return }
        try db.execute(sql: "DELETE FROM device WHERE token = ?", arguments: [token])
    }

    // MARK: Announcements

    /// Stores an announcement to all devices, and returns its number.
    func announce(_ title: String) async throws -> Int64 {
        try await self.database.write { db in
            try db.execute(sql: "INSERT INTO announcement (title) VALUES (?)", arguments: [title])
            let id = db.lastInsertedRowID
            try db.execute(
                sql: "INSERT INTO recipient (announcement, token) SELECT ?, token FROM device",
                arguments: [id]
            )
            return id
        }
    }

    /// The numbers and titles of the announcements that have recipients without an outcome.
    func unfinishedAnnouncements() async throws -> [Int64: String] {
        try await self.database.read { db in
            let rows = try Row.fetchAll(
                db,
                sql: """
                    SELECT id, title FROM announcement
                    WHERE id IN (SELECT announcement FROM recipient WHERE outcome IS NULL)
                    """
            )
            return Dictionary(uniqueKeysWithValues: rows.map { ($0["id"], $0["title"]) })
        }
    }

    /// The recipients without an outcome.
    func recipients(of announcement: Int64) async throws -> [String] {
        try await self.database.read { db in
            try String.fetchAll(
                db,
                sql: "SELECT token FROM recipient WHERE announcement = ? AND outcome IS NULL",
                arguments: [announcement]
            )
        }
    }

    /// Stores the outcome of one recipient's push.
    func settle(_ outcome: PushOutcome, of token: String, in announcement: Int64) async throws {
        try await self.database.write { db in
            try Self.removeIfDead(token, after: outcome, db)
            try db.execute(
                sql: "UPDATE recipient SET outcome = ? WHERE announcement = ? AND token = ?",
                arguments: [outcome.certainty.rawValue, announcement, token]
            )
        }
    }

    /// How many recipients have each outcome; those without one are `pending`.
    func counts(of announcement: Int64) async throws -> [String: Int] {
        try await self.database.read { db in
            let rows = try Row.fetchAll(
                db,
                sql: """
                    SELECT coalesce(outcome, 'pending') AS name, count(*) AS number
                    FROM recipient WHERE announcement = ? GROUP BY outcome
                    """,
                arguments: [announcement]
            )
            return Dictionary(uniqueKeysWithValues: rows.map { ($0["name"], $0["number"]) })
        }
    }
}
