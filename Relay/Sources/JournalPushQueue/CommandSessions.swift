import APNSModel
import PushQueue

/// Which commands of each process were applied, so that copies of a record have no effect.
struct CommandSessions: Sendable {
    struct Session: Sendable, Equatable {
        var floor: UInt64 = 0
        /// The commands from `floor` on that were applied.
        var applied: Set<UInt64> = []
        /// Whether parts of commands are stored.
        var hasParts = false
        var usedAt: QueueTime

        func hasApplied(_ number: UInt64) -> Bool { number < self.floor || self.applied.contains(number) }
    }

    /// A session is forgotten once it was not used for a day. Its process has ended, and no copy of a record arrives so
    /// late.
    private static let retention = Duration.seconds(86_400)

    private(set) var sessions: [APNSID: Session] = [:]
    /// Sessions that differ from those in the file; nil for one that was removed.
    private(set) var changes: [APNSID: Session?] = [:]

    subscript(id: APNSID) -> Session? { self.sessions[id] }

    mutating func add(_ session: Session, _ id: APNSID) { self.sessions[id] = session }

    /// Takes note of a record.
    ///
    /// - Returns: whether its command has not been applied.
    mutating func begin(_ record: JournalRecord, at time: QueueTime) -> Bool {
        var session = self.sessions[record.session] ?? Session(usedAt: time)
        session.usedAt = time
        if record.floor > session.floor {
            session.floor = record.floor
            session.applied = session.applied.filter { $0 >= record.floor }
        }
        if record.parts > 1 { session.hasParts = true }
        self.set(session, record.session)
        return !session.hasApplied(record.number)
    }

    mutating func end(_ record: JournalRecord) {
        guard var session = self.sessions[record.session] else { return }
        session.applied.insert(record.number)
        self.set(session, record.session)
    }

    mutating func prune(at time: QueueTime) {
        let cutoff = time.advanced(by: .zero - Self.retention)
        for (id, session) in self.sessions where session.usedAt < cutoff {
            self.sessions[id] = nil
            self.changes[id] = .some(nil)
        }
    }

    mutating func forgetChanges() { self.changes = [:] }

    private mutating func set(_ session: Session, _ id: APNSID) {
        self.sessions[id] = session
        self.changes[id] = session
    }
}
