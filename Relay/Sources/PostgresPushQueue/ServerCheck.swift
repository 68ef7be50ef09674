import PushQueue

/// Whether a server can be trusted with the queue.
enum ServerCheck {
    /// The oldest version of PostgreSQL that the schema needs.
    static let oldestVersion = 130_000

    /// - Throws: `QueueError` (`unusable`) if the server is too old, or loses commits in a power failure.
    static func check(_ connection: Connection) throws {
        let row = try connection.run(
            """
            SELECT current_setting('server_version_num')::int, current_setting('server_version'), \
            current_setting('fsync')
            """
        )[0]
        guard row.int(0) >= self.oldestVersion else {
            throw QueueError(
                code: .unusable,
                message: "The server is PostgreSQL \(row.text(1)); the queue needs 13 or later."
            )
        }
        guard row.text(2) == "on" else {
            throw QueueError(
                code: .unusable,
                message: "The server has fsync off, so a power failure loses stored pushes. Set fsync = on."
            )
        }
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
