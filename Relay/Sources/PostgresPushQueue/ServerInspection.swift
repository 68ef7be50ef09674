public import PushQueue

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// What `apns-relay doctor` finds out about a database. Changes nothing.
public struct ServerInspection: Sendable {
    /// One property of the server or of the queue in it.
    public struct Finding: Sendable, Hashable {
        public var subject: String
        public var isOK: Bool
        /// The finding, and the remedy.
        public var message: String
    }

    public private(set) var findings: [Finding] = []
    /// Whether the database has no queue yet, and a relay that starts creates it.
    public private(set) var isBeforeFirstStart = false

    /// Connects and inspects the server. Blocks.
    ///
    /// - Parameters:
    ///   - settings: how to connect.
    ///   - migrates: whether the relay creates a missing schema when it starts.
    ///   - seen: how far the relay has seen the queue come; nil if that is not known.
    /// - Throws: `QueueError` if the database cannot be reached.
    public init(
        _ settings: ConnectionSettings,
        migrates: Bool = false,
        seen: QueueProgress? = nil
    ) throws(QueueError) {
        (self.findings, self.isBeforeFirstStart) = try QueueError.converting {
            let connection = try settings.connect()
            let version = try Self.version(connection)
            // An older server does not have the functions that follow.
            guard version.isOK else { return ([version], false) }
            // Before other connections are opened.
            let connections = try Self.connections(connection)
            let hasOwnSession = try ServerCheck.hasOwnSession(connection, settings)
            let sessions = Finding(
                subject: "sessions",
                isOK: hasOwnSession,
                message: hasOwnSession ? "each connection has its own" : ServerCheck.poolerRemedy
            )
            let schema = try Self.schema(connection, migrates: migrates)
            let isMissing = try !PostgresSchema.exists(in: connection)
            return (
                try [version, sessions, Self.autovacuum(connection), connections]
                    + Self.durability(connection)
                    + [schema] + Self.restore(connection, seen)
                    + [Self.clock(connection), Self.oldestTransaction(connection)],
                isMissing && schema.isOK
            )
        }
    }

    private static func version(_ connection: Connection) throws -> Finding {
        let row = try connection.run(
            "SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS number"
        )[0]
        let isNew = row.int("number") >= ServerCheck.oldestVersion
        return Finding(
            subject: "version",
            isOK: isNew,
            message: "PostgreSQL \(row.text("version"))" + (isNew ? "" : "; the queue needs 13 or later")
        )
    }

    private static func autovacuum(_ connection: Connection) throws -> Finding {
        let isOn = try connection.run("SELECT current_setting('autovacuum') = 'on'")[0].bool()
        return Finding(
            subject: "autovacuum",
            isOK: isOn,
            message: isOn ? "on" : "off; the tables of the queue grow without it: set autovacuum = on"
        )
    }

    /// The connections of clients, in all databases. A plain role does not see the kinds of other roles' sessions.
    private static func connections(_ connection: Connection) throws -> Finding {
        let row = try connection.run(
            """
            SELECT count(*) AS used, current_setting('max_connections')::bigint AS most FROM pg_stat_activity \
            WHERE coalesce(backend_type, 'client backend') = 'client backend' AND datid IS NOT NULL \
            AND usesysid IS NOT NULL
            """
        )[0]
        let (most, free) = (row.int("most"), row.int("most") - row.int("used"))
        return Finding(
            subject: "connections",
            isOK: free > 10,
            message: "\(free) of \(most) are free"
                + (free > 10 ? "" : "; each relay needs storage.connections and one more: raise max_connections")
        )
    }

    private static let whoActs = "A relay that runs acts on it within seconds; otherwise the next one that starts does"

    /// Whether a backup was restored; empty if there is no queue yet.
    private static func restore(_ connection: Connection, _ seen: QueueProgress?) throws -> [Finding] {
        guard try connection.run("SELECT to_regprocedure('apns.progress()')::text")[0].optionalText() != nil
        else { return [] }
        let found = Histories.Found(try connection.run(Histories.query)[0])
        guard found.progress.history > 0 else { return [] }
        let message: String
        if !found.isCurrent {
            message = "a standby was promoted or a backup was restored. \(Self.whoActs)"
        } else if let seen, seen.queue == found.progress.queue {
            message =
                found.progress.isBehind(seen)
                ? "a backup was restored. \(Self.whoActs)"
                : "the queue has come as far as this relay has seen it"
        } else {
            message = "this relay has not used the queue before; if a backup was restored, run apns-relay restored"
        }
        return [Finding(subject: "restore", isOK: true, message: message)]
    }

    /// What a commit waits for. Only a role with `pg_monitor` sees standbys. A program that copies the server is none.
    private static func durability(_ connection: Connection) throws -> [Finding] {
        let row = try connection.run(
            """
            SELECT current_setting('fsync') = 'on' AS fsync, current_setting('full_page_writes') = 'on' AS full_pages, \
            current_setting('synchronous_commit') AS commit, names AS standbys, \
            coalesce(substring(names FROM '(\\d+)\\s*\\(')::bigint, 1) AS required, \
            CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE') THEN (SELECT count(*) FROM pg_stat_replication \
            WHERE state = 'streaming' AND sync_state <> 'async' AND application_name <> 'pg_basebackup') END AS connected \
            FROM current_setting('synchronous_standby_names') AS names
            """
        )[0]
        let names = row.text("standbys")
        let standby: Finding
        if names.isEmpty {
            standby = Finding(
                subject: "standby",
                isOK: true,
                message:
                    "no commit waits for one; the failure of this server's disk loses pushes, and a promoted standby "
                    + "may lack the newest"
            )
        } else if let synchronous = row.optionalInt64("connected") {
            let isOK = synchronous >= row.int64("required")
            standby = Finding(
                subject: "standby",
                isOK: isOK,
                message: "commits wait for \(names)"
                    + (isOK ? "" : ", and \(synchronous) are connected: every commit waits. Start the standby")
            )
        } else {
            standby = Finding(
                subject: "standby",
                isOK: true,
                message: "commits wait for \(names); \(Self.grant) to see whether it is connected"
            )
        }
        let commit = row.text("commit")
        let isSynchronous = ["on", "remote_apply"].contains(commit)
        return [
            Finding(
                subject: "fsync",
                isOK: row.bool("fsync") && row.bool("full_pages"),
                message: row.bool("fsync") && row.bool("full_pages")
                    ? "on" : "off, or full_page_writes is; a power failure loses stored pushes: set both to on"
            ),
            Finding(
                subject: "synchronous_commit",
                isOK: isSynchronous,
                message: commit + (isSynchronous ? "" : "; set synchronous_commit = on")
            ),
            standby,
        ]
    }

    private static func schema(_ connection: Connection, migrates: Bool) throws -> Finding {
        do {
            if migrates, try !PostgresSchema.exists(in: connection) { return try Self.creation(connection) }
            try PostgresSchema.require(connection)
            let rights = try connection.run(
                """
                SELECT has_schema_privilege('apns', 'USAGE') AND bool_and(has_function_privilege(oid, 'EXECUTE')) \
                FROM pg_proc WHERE pronamespace = 'apns'::regnamespace
                """
            )[0]
            return Finding(
                subject: "schema",
                isOK: rights.bool(),
                message: rights.bool()
                    ? "up to date" : "the role may not use all functions of the schema apns; let it own them"
            )
        } catch let error as QueueError {
            return Finding(subject: "schema", isOK: false, message: error.message)
        }
    }

    /// Whether a relay that starts can create the schema.
    private static func creation(_ connection: Connection) throws -> Finding {
        let row = try connection.run(
            """
            SELECT coalesce(has_schema_privilege(to_regnamespace('apns')::oid, 'CREATE'), \
            has_database_privilege(current_database(), 'CREATE')) AS may_create, current_user::text AS role, \
            current_database()::text AS database
            """
        )[0]
        return Finding(
            subject: "schema",
            isOK: row.bool("may_create"),
            message: row.bool("may_create")
                ? "does not exist yet; the relay creates the schema apns and its queue when it starts"
                : "does not exist yet, and the role \(row.text("role")) may not create it: grant CREATE on the database "
                    + "\(row.text("database")), or run apns-relay migrate as a role that may"
        )
    }

    private static func clock(_ connection: Connection) throws -> Finding {
        let before = Date().timeIntervalSince1970
        let database =
            Double(
                try connection.run(
                    "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
                )[0]
                .int64()
            ) / 1_000
        let after = Date().timeIntervalSince1970
        let difference = max(before - database, database - after, 0)
        let isOK = difference < 2
        return Finding(
            subject: "clock",
            isOK: isOK,
            message: isOK
                ? "agrees with this machine's"
                : "differs from this machine's by \(Int(difference)) s; synchronise both (NTP)"
        )
    }

    /// Rows that a transaction may still see cannot be removed, whoever it belongs to.
    private static func oldestTransaction(_ connection: Connection) throws -> Finding {
        let state = DatabaseState(try connection.run(DatabaseState.transactions))
        let age = state.oldest.values.max() ?? .zero
        let isOK = age < .seconds(600)
        let isKnown = state.heldIDs[.session] == nil || state.oldest[.session] != nil
        return Finding(
            subject: "oldest transaction",
            isOK: isOK,
            message: "\(age.components.seconds) s old"
                + (isOK ? "" : "; until it ends, the tables of the queue grow and slow down: see pg_stat_activity")
                + (isKnown ? "" : "; there is one of another role, whose age is hidden: \(Self.grant) to see it")
        )
    }

    private static let grant = "GRANT pg_monitor to the relay's role"
}
