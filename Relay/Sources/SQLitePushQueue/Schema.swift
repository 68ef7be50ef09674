/// The tables of the file.
///
/// - `push`: pushes without an outcome. The rows are wide, so a row is updated only when its push returns to the queue
///   or is parked.
/// - `queue`: the queued pushes of each route, in the order in which they are due.
/// - `flight`: the claimed and the written pushes.
/// - `parked`: the parked pushes. Their `push.expires` is NULL. Every row of `push` has a row in one of `queue`, `flight` and `parked`.
/// - `attempt`: the outcome of the attempts of pushes that returned to the queue or were parked.
/// - `outcome`: settled pushes in the order of the feed. An outcome has the number of its certainty, the number of attempts
///   and, unless the push was simply accepted, the coded form of the outcome (JSON), as in PostgreSQL.
/// - `route`: an app, an environment, a lane, a caller and a batch. `push` and `outcome` have the caller by way of it.
/// - `batch_outcome`: how many pushes of each batch have an outcome with each certainty.
/// - `ident`: the position of the push with an id, in `push` or in `outcome`.
/// - `idempotency`: the idempotency keys by the position of their push. Their retention counts from `settled_at`, which
///   is NULL until the push has its outcome.
/// - `counter`: numbers that cannot be computed from the rows: the next cursor after the last outcomes were deleted;
///   how often the file was opened; the generations of the feed.
///
/// Rows of all large tables except `ident` and the index of `idempotency` are appended at the end and deleted from the
/// beginning, so that a transaction writes few pages.
enum Schema {
    /// `PRAGMA application_id`: "APNR".
    static let applicationID: Int32 = 0x4150_4E52
    /// `PRAGMA user_version`.
    static let version = 1

    /// Creates the tables in an empty file. A route without a batch has an empty one, because NULLs are never equal.
    static let tables = """
        CREATE TABLE caller (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE route (
            id INTEGER PRIMARY KEY, app TEXT NOT NULL, environment TEXT NOT NULL, lane INTEGER NOT NULL,
            caller INTEGER NOT NULL, batch BLOB NOT NULL, UNIQUE (app, environment, lane, caller, batch)
        );
        CREATE TABLE ident (id BLOB PRIMARY KEY, position INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE push (
            position INTEGER PRIMARY KEY, id BLOB NOT NULL, route INTEGER NOT NULL, queued_at INTEGER NOT NULL,
            due INTEGER NOT NULL, deadline INTEGER NOT NULL, expires INTEGER, attempts INTEGER NOT NULL,
            tried INTEGER NOT NULL, resends INTEGER NOT NULL, supersedes TEXT, token BLOB NOT NULL, topic TEXT NOT NULL,
            type TEXT NOT NULL, priority INTEGER, expiration INTEGER, collapse TEXT, payload BLOB NOT NULL, metadata TEXT
        );
        CREATE INDEX push_expires ON push (expires) WHERE expires IS NOT NULL;
        CREATE INDEX push_supersedes ON push (supersedes, token) WHERE supersedes IS NOT NULL;
        CREATE TABLE queue (
            route INTEGER NOT NULL, due INTEGER NOT NULL, position INTEGER NOT NULL,
            PRIMARY KEY (route, due, position)
        ) WITHOUT ROWID;
        CREATE TABLE flight (
            position INTEGER PRIMARY KEY, route INTEGER NOT NULL, state INTEGER NOT NULL, epoch INTEGER NOT NULL,
            lease INTEGER NOT NULL
        );
        CREATE TABLE parked (position INTEGER PRIMARY KEY, route INTEGER NOT NULL, since INTEGER NOT NULL);
        CREATE INDEX parked_since ON parked (since);
        CREATE TABLE attempt (
            position INTEGER PRIMARY KEY, certainty INTEGER NOT NULL, sends INTEGER NOT NULL, result TEXT
        );
        CREATE TABLE outcome (
            cursor INTEGER PRIMARY KEY, position INTEGER NOT NULL, id BLOB NOT NULL, route INTEGER NOT NULL,
            queued_at INTEGER NOT NULL, due INTEGER NOT NULL, deadline INTEGER NOT NULL, token BLOB NOT NULL,
            attempts INTEGER NOT NULL, settled_at INTEGER NOT NULL, invalidates INTEGER NOT NULL, metadata TEXT,
            certainty INTEGER NOT NULL, sends INTEGER NOT NULL, result TEXT
        );
        CREATE UNIQUE INDEX outcome_position ON outcome (position);
        CREATE INDEX outcome_invalidates ON outcome (cursor) WHERE invalidates = 1;
        CREATE TABLE batch_outcome (
            route INTEGER NOT NULL, certainty INTEGER NOT NULL, invalidates INTEGER NOT NULL, pushes INTEGER NOT NULL,
            PRIMARY KEY (route, certainty, invalidates)
        ) WITHOUT ROWID;
        CREATE TABLE idempotency (
            position INTEGER PRIMARY KEY, caller INTEGER NOT NULL, key TEXT NOT NULL, digest BLOB NOT NULL,
            id BLOB NOT NULL, settled_at INTEGER
        );
        CREATE UNIQUE INDEX idempotency_key ON idempotency (caller, key);
        CREATE INDEX idempotency_settled ON idempotency (settled_at) WHERE settled_at IS NOT NULL;
        CREATE TABLE value (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
        CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
        PRAGMA user_version = 1;
        """
}
