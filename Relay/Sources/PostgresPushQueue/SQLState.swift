import PushQueue

/// PostgreSQL's error codes.
enum SQLState {
    /// The server has rolled the transaction back because of another one: serialization failure, deadlock, lock timeout.
    static func isTransient(_ state: String) -> Bool { ["40001", "40P01", "55P03"].contains(state) }

    /// The server is a standby, or was made read-only.
    static func isReadOnly(_ state: String) -> Bool { state == "25006" }

    /// There is no room on the server's disk.
    static let diskFull = "53100"

    /// Raised by `apns.store`: the queue is full.
    static let full = "AP001"
}

extension QueueError {
    /// The error for a statement that the server has refused.
    init(state: String, message: String, detail: String?) {
        self.init(code: Self.code(of: state), message: Self.message(state, message, detail))
    }

    private static let diskFull = "The database's disk is full"

    /// Whether the server had no room on its disk.
    var isDiskFull: Bool { self.message.contains(Self.diskFull) }

    private static func code(of state: String) -> Code {
        switch state {
        case SQLState.full: .full
        // Something is missing or is not what the relay knows, or the relay may not use it.
        case "3D000", "3F000", "42P01", "42883", "42703", "42501", "28000", "28P01": .unusable
        // Damage.
        case "XX001", "XX002": .unusable
        default: .unavailable
        }
    }

    private static func message(_ state: String, _ message: String, _ detail: String?) -> String {
        switch state {
        case SQLState.full: return "\(message) Try again later."
        case "42P01", "42883", "42703", "3F000":
            return
                "The schema of the queue is missing, or not the one of this relay (\(message)). Run apns-relay migrate."
        case "42501": return "The role may not use the queue (\(message)). Let apns-relay migrate run as its owner."
        case "55P03":
            return "Another transaction has locked the tables of the queue (\(message)). pg_stat_activity shows it."
        case SQLState.diskFull: return "\(Self.diskFull) (\(message)). Make room."
        case "XX001", "XX002":
            return "The database is damaged (\(message)). Restore a backup, or promote a standby."
        default:
            let detail = detail.map { " (\($0))" } ?? ""
            return "The database refused the change: \(message)\(detail) [SQLSTATE \(state)]. Try again later."
        }
    }

    /// The error for a database that cannot be reached.
    static func away(_ message: String, isUndecided: Bool) -> QueueError {
        QueueError(
            code: isUndecided ? .undecided : .unavailable,
            message: isUndecided
                ? "The connection to the database was lost, and it is not known whether the change was stored: \(message)"
                : "The database cannot be reached: \(message). Try again later."
        )
    }
}
