import APNSModel
import GRDB
import PushQueue
import SQLitePushQueue

extension QueueCopy.State {
    /// Reads the state from a file.
    init(from db: Database) throws {
        let times = QueueTime(millisecondsSince1970: 0)
        let transaction = WriteTransaction(db, now: times, leaseNow: times, state: WriterState())
        try transaction.loadState()
        self.writer = transaction.state
        self.progress = try QueueCopy.Progress(from: db)
        let withParts = try Self.sessionsWithParts(db)
        try db.prepared("SELECT id, floor, applied, used_at FROM session").forEach { row in
            guard let id = row.id(0) else { return true }
            self.sessions.add(
                CommandSessions.Session(
                    floor: UInt64(bitPattern: row.int64(1)),
                    applied: row.withBytes(2) { Set(Self.numbers(in: $0)) },
                    hasParts: withParts.contains(id),
                    usedAt: QueueTime(millisecondsSince1970: row.int64(3))
                ),
                id
            )
            return true
        }
    }

    private static func sessionsWithParts(_ db: Database) throws -> Set<APNSID> {
        var ids: Set<APNSID> = []
        try db.prepared("SELECT DISTINCT session FROM part").forEach { row in
            if let id = row.id(0) { ids.insert(id) }
            return true
        }
        return ids
    }

    private static func numbers(in bytes: UnsafeRawBufferPointer) -> [UInt64] {
        stride(from: 0, to: bytes.count - bytes.count % 8, by: 8)
            .map { UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: $0, as: UInt64.self)) }
    }
}

extension QueueCopy.Progress {
    /// Reads the progress from a file.
    init(from db: Database) throws {
        let select = try db.prepared("SELECT sequence, session, number, part, lease_now, bytes, time FROM journal")
        let progress = try select.first { row in
            Self(
                sequence: UInt64(bitPattern: row.int64(0)),
                record: row.id(1).map {
                    QueueCopy.RecordName(
                        session: $0,
                        number: UInt64(bitPattern: row.int64(2)),
                        part: UInt32(truncatingIfNeeded: row.int64(3))
                    )
                },
                leaseNow: QueueTime(millisecondsSince1970: row.int64(4)),
                time: row.optionalInt64(6).map { QueueTime(millisecondsSince1970: $0) },
                bytes: UInt64(bitPattern: row.int64(5))
            )
        }
        self = progress ?? Self()
    }
}
