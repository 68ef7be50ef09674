import PushQueue

/// Whether a server can be trusted with the queue.
enum ServerCheck {
    /// The oldest version of PostgreSQL that the schema needs.
    static let oldestVersion = 130_000

    /// - Throws: `QueueError` (`unusable`) if the server is too old or loses commits in a power failure, or if a pooler in
    ///   transaction mode stands before it.
    static func check(_ connection: Connection, _ settings: ConnectionSettings) throws {
        guard try self.hasOwnSession(connection, settings) else {
            throw QueueError(code: .unusable, message: "Between the relay and the database, \(self.poolerRemedy).")
        }
        let row = try connection.run(
            """
            SELECT current_setting('server_version_num')::int AS number, current_setting('server_version') AS version, \
            current_setting('fsync') AS fsync
            """
        )[0]
        guard row.int("number") >= self.oldestVersion else {
            throw QueueError(
                code: .unusable,
                message: "The server is PostgreSQL \(row.text("version")); the queue needs 13 or later."
            )
        }
        guard row.text("fsync") == "on" else {
            throw QueueError(
                code: .unusable,
                message: "The server has fsync off, so a power failure loses stored pushes. Set fsync = on."
            )
        }
    }

    static let poolerRemedy = """
        a pooler uses another session for each transaction, so settings of a session leak, and a failover is not noticed: \
        connect to the server itself, or set pool_mode = session for this database
        """

    /// Whether each connection has a session of the server for itself. A pooler in transaction mode gives an idle session
    /// to the next connection that asks, so two connections get the same one.
    static func hasOwnSession(_ connection: Connection, _ settings: ConnectionSettings) throws -> Bool {
        let other = try settings.connect()
        // Not prepared: the names of prepared statements would meet in the same session.
        let query = "SELECT pg_catalog.pg_backend_pid()"
        for _ in 0..<3 where try connection.runScript(query)[0].text() == other.runScript(query)[0].text() {
            return false
        }
        return true
    }
}

extension QueueError {
    /// Runs a body that throws `PostgresFailure` or `QueueError`.
    static func converting<Value>(_ body: () throws -> Value) throws(QueueError) -> Value {
        do {
            return try body()
        } catch let error as QueueError {
            throw error
        } catch let PostgresFailure.refused(state, message, detail) {
            throw QueueError(state: state, message: message, detail: detail)
        } catch let error as PostgresFailure {
            throw .away(error.message, isUndecided: false)
        } catch {
            throw QueueError(code: .unavailable, message: "\(error)")
        }
    }
}
