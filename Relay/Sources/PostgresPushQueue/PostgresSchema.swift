import CPostgresSchema
public import PushQueue

/// The queue's schema: its tables and functions.
public enum PostgresSchema {
    /// The version that the text creates, and that this relay needs.
    static let version = 1

    /// The SQL text of the tables and functions in the schema `apns`, which must exist and be empty.
    private static let text: String = {
        var count = 0
        let bytes = UnsafeBufferPointer(start: apns_postgres_schema(&count), count: count)
        return String(decoding: bytes, as: UTF8.self)
    }()

    private static let lock = "SELECT pg_catalog.pg_advisory_xact_lock(1095781971, -2)"

    /// The SQL text that creates the schema, for a database in which a person runs it.
    public static var script: String { "BEGIN;\nCREATE SCHEMA apns;\n\(self.text)\nCOMMIT;\n" }

    /// - Throws: `QueueError` (`unusable`) if the schema is missing, or newer than this relay.
    static func require(_ connection: Connection) throws {
        guard try self.exists(in: connection) else {
            throw QueueError(code: .unusable, message: "The database has no queue. Run apns-relay migrate.")
        }
    }

    /// - Throws: `QueueError` (`unusable`) if the schema is newer than this relay.
    static func exists(in connection: Connection) throws -> Bool {
        guard try connection.run("SELECT pg_catalog.to_regclass('apns.version')::text")[0].optionalText() != nil
        else { return false }
        let version = try connection.run("SELECT version FROM apns.version")[0].int()
        guard version <= self.version else {
            throw QueueError(
                code: .unusable,
                message: "The queue has the schema version \(version), and this apns-relay knows versions up to "
                    + "\(self.version). Use the newer apns-relay that made it."
            )
        }
        return true
    }

    /// Creates the schema in a database that has none. Several processes may try at the same time. Blocks.
    ///
    /// - Returns: whether it was created; false if it was there.
    /// - Throws: `QueueError`: `unavailable` if the database cannot be reached; `unusable` if the server or a newer schema
    ///   cannot be used, or the role may not create it.
    public static func create(_ settings: ConnectionSettings) throws(QueueError) -> Bool {
        try QueueError.converting {
            let connection = try settings.connect()
            try ServerCheck.check(connection, settings)
            return try self.create(connection)
        }
    }

    /// Creates the schema in a database that has none, in one transaction.
    ///
    /// - Returns: whether it was created; false if it was there.
    static func create(_ connection: Connection) throws -> Bool {
        guard try !self.exists(in: connection) else { return false }
        try connection.runScript("BEGIN")
        do {
            _ = try connection.run(self.lock)
            let isMissing = try !self.exists(in: connection)
            if isMissing {
                if try connection.run("SELECT pg_catalog.to_regnamespace('apns')::text")[0].isNull() {
                    try connection.runScript("CREATE SCHEMA apns")
                }
                try connection.runScript(self.text)
            }
            try connection.runScript("COMMIT")
            return isMissing
        } catch {
            _ = try? connection.runScript("ROLLBACK")
            throw error
        }
    }
}
