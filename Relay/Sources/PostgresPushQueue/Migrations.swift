import CPostgresSchema
public import PushQueue

/// The versions of the queue's schema, and how a database gets from one to the next.
///
/// A migration keeps what older relays use, so that relays can be updated one after the other.
public enum Migrations {
    /// The SQL text of each migration. The first one has the number 1 and creates the schema.
    static let all: [String] = {
        var count = 0
        let bytes = UnsafeBufferPointer(start: apns_postgres_schema(&count), count: count)
        return [String(decoding: bytes, as: UTF8.self)]
    }()

    /// The version that this relay needs.
    static var version: Int { self.all.count }

    private static let lock = "SELECT pg_catalog.pg_advisory_xact_lock(1095781971, -2)"
    private static let versions = """
        CREATE TABLE IF NOT EXISTS apns.migration (
          version int PRIMARY KEY,
          oldest int NOT NULL, -- a relay that only knows older versions must not use the schema
          applied_at timestamptz NOT NULL DEFAULT now()
        )
        """

    private static func record(_ version: Int) -> String {
        "INSERT INTO apns.migration (version, oldest) VALUES (\(version), 1)"
    }

    /// The SQL text of all migrations, for a database in which a person runs them.
    public static var script: String {
        let migrations = self.all.enumerated().map { "\($1)\n\(self.record($0 + 1));\n" }
        return """
            BEGIN;
            \(self.lock);
            CREATE SCHEMA apns;
            \(self.versions);
            \(migrations.joined(separator: "\n"))
            COMMIT;

            """
    }

    /// - Throws: `QueueError` (`unusable`) if the schema is missing, or too old or too new for this relay.
    static func requireCurrent(_ connection: Connection) throws {
        let version = try self.version(in: connection)
        guard version >= self.version else {
            throw QueueError(
                code: .unusable,
                message: version == 0
                    ? "The database has no queue. Run apns-relay migrate."
                    : "The queue has the schema \(version), and this relay needs \(self.version). Run apns-relay migrate."
            )
        }
    }

    /// The version of the schema in a database; 0 if there is none.
    static func version(in connection: Connection) throws -> Int {
        guard try connection.run("SELECT pg_catalog.to_regclass('apns.migration')::text")[0].optionalText(0) != nil
        else { return 0 }
        let row = try connection.run("SELECT max(version), max(oldest) FROM apns.migration")[0]
        guard row.int(1) <= self.version else {
            throw QueueError(
                code: .unusable,
                message: """
                    The queue has the schema \(row.int(0)), which relays that know only the schema \(self.version) must \
                    not use. Update this relay.
                    """
            )
        }
        return row.int(0)
    }

    /// Brings the schema of a database up to date. Several processes may try at the same time. Blocks.
    ///
    /// - Returns: the version of the schema before, and now.
    /// - Throws: `QueueError`: `unavailable` if the database cannot be reached; `unusable` if the server or a newer schema
    ///   cannot be used, or the role may not create it.
    public static func run(_ settings: ConnectionSettings) throws(QueueError) -> (before: Int, now: Int) {
        try QueueError.converting {
            let connection = try settings.connect()
            try ServerCheck.check(connection, settings)
            let migrated = try self.run(connection)
            return (migrated.map { $0.lowerBound - 1 } ?? self.version, self.version)
        }
    }

    /// Brings the schema up to date, in one transaction. Several processes may try at the same time.
    ///
    /// - Returns: the numbers of the migrations that were run.
    static func run(_ connection: Connection) throws -> ClosedRange<Int>? {
        guard try self.version(in: connection) < self.version else { return nil }
        try connection.runScript("BEGIN")
        do {
            _ = try connection.run(self.lock)
            if try connection.run("SELECT pg_catalog.to_regnamespace('apns')::text")[0].isNull(0) {
                try connection.runScript("CREATE SCHEMA apns")
            }
            try connection.runScript(self.versions)
            let present = try self.version(in: connection)
            for version in present..<max(self.version, present) {
                try connection.runScript(self.all[version])
                try connection.runScript(self.record(version + 1))
            }
            try connection.runScript("COMMIT")
            return present < self.version ? present + 1...self.version : nil
        } catch {
            _ = try? connection.runScript("ROLLBACK")
            throw error
        }
    }
}
