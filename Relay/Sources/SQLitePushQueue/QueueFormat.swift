import GRDB

/// A kind of file that holds a queue.
package struct QueueFormat: Sendable {
    /// `PRAGMA application_id`.
    let applicationID: Int32
    private let furtherTables: String

    /// A queue that one process uses: "APNR".
    package static let queue = QueueFormat(applicationID: 0x4150_4E52, furtherTables: "")

    /// A copy of a queue that several processes share: "APNC".
    ///
    /// - `journal`: one row: the last applied entry, the time for leases, the bytes of all entries so far, and when the
    ///   last command was stored.
    /// - `session`: which commands of each process were applied. `applied` holds those from `floor` on, 8 bytes each.
    /// - `part`: parts of commands whose other parts have not been read yet.
    /// - `claimant`: the process that has made the claims with an epoch.
    /// - `process`: the processes that have used this file and may have left claims. The only table in which copies
    ///   differ.
    package static let copy = QueueFormat(
        applicationID: 0x4150_4E43,
        furtherTables: """
            CREATE TABLE journal (
                id INTEGER PRIMARY KEY CHECK (id = 1), sequence INTEGER NOT NULL, session BLOB NOT NULL,
                number INTEGER NOT NULL, part INTEGER NOT NULL, lease_now INTEGER NOT NULL, bytes INTEGER NOT NULL,
                time INTEGER
            );
            CREATE TABLE session (
                id BLOB PRIMARY KEY, floor INTEGER NOT NULL, applied BLOB NOT NULL, used_at INTEGER NOT NULL
            ) WITHOUT ROWID;
            CREATE TABLE part (
                session BLOB NOT NULL, number INTEGER NOT NULL, part INTEGER NOT NULL, body BLOB NOT NULL,
                PRIMARY KEY (session, number, part)
            ) WITHOUT ROWID;
            CREATE TABLE claimant (epoch INTEGER PRIMARY KEY, session BLOB NOT NULL);
            CREATE TABLE process (session BLOB PRIMARY KEY) WITHOUT ROWID;
            """
    )

    /// Upgrades a file of an older version, in the caller's transaction.
    ///
    /// - Parameter version: the version of the file; 0 for an empty file.
    func upgrade(_ db: Database, from version: Int) throws {
        if version < 1 { try db.execute(sql: Schema.version1 + self.furtherTables) }
        if version < 2 { try db.execute(sql: Schema.version2) }
        try db.execute(sql: "PRAGMA user_version = \(Schema.version)")
    }
}
