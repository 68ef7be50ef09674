package import PushQueue

/// A durable log that all processes append to and read in the same order. Each process has a reader of its own.
///
/// An appended record may be stored at once, later or never. The queue appends it again until it has read it back,
/// so the journal may contain a record several times. The journal need not detect such copies.
package protocol Journal: Sendable {
    /// The most bytes of a record.
    var maximumRecord: Int { get }

    /// Starts to read the entries after a position. First adds ``JournalEvent/extent(_:)`` to ``events``, then the
    /// entries, in order and without gaps. If entries after the position were deleted, starts with the first one that
    /// is left. The next call replaces this reader. Does not block.
    func read(after sequence: UInt64)

    /// The events for the queue. ``close()`` closes them.
    var events: JournalEvents { get }

    /// Appends a record. Does not block.
    ///
    /// - Parameters:
    ///   - record: the bytes.
    ///   - id: identifies the record. All copies of a record have the same id.
    ///   - number: the number of the record's command, for ``JournalEvent/refused(number:reason:isFull:)``.
    func append(_ record: [UInt8], id: String, number: UInt64)

    /// The newest snapshot of this journal; nil if there is none.
    func newestSnapshot() async throws(QueueError) -> JournalSnapshot?

    /// Writes a snapshot to a file.
    ///
    /// - Returns: false if the snapshot is not the newest one any more, or parts of it are missing.
    func load(_ snapshot: JournalSnapshot, into file: String) async throws(QueueError) -> Bool

    /// Stores a snapshot. Then deletes the previous snapshot and the entries that the previous snapshot contains. Does
    /// nothing if a stored snapshot is as new or newer.
    ///
    /// - Parameters:
    ///   - snapshot: the description of the snapshot.
    ///   - file: the file with its content.
    /// - Throws: `QueueError`: among others `unavailable` if the journal ends before the snapshot.
    func store(_ snapshot: JournalSnapshot, from file: String) async throws(QueueError)

    /// Deletes the entries before a position, which must be at least 2. If the journal ends before the position, the
    /// next entry gets it.
    func deleteEntries(before sequence: UInt64) async throws(QueueError)

    /// Stops reading and appending. No event follows.
    func close() async
}

/// Which entries a journal has.
package struct JournalExtent: Sendable, Hashable {
    /// The first entry that is left; one more than `last` if there is none.
    package var first: UInt64
    /// The newest entry; 0 if there was never one.
    package var last: UInt64

    package init(first: UInt64, last: UInt64) {
        self.first = first
        self.last = last
    }
}

/// A stored record.
package struct JournalEntry: Sendable {
    /// Its position. The next entry has the next number.
    package var sequence: UInt64
    /// When it was stored, by the clock of the storage.
    package var time: QueueTime
    package var record: [UInt8]
    /// When this process received it.
    package var received: ContinuousClock.Instant

    package init(
        sequence: UInt64,
        time: QueueTime,
        record: [UInt8],
        received: ContinuousClock.Instant = .now
    ) {
        self.sequence = sequence
        self.time = time
        self.record = record
        self.received = received
    }
}

/// The description of a snapshot: a file that holds the queue as it was after an entry.
package struct JournalSnapshot: Sendable, Hashable {
    /// The last entry that it contains.
    package var sequence: UInt64
    /// The bytes of all entries up to that one.
    package var journalBytes: UInt64
    /// The bytes of the file.
    package var size: UInt64

    package init(sequence: UInt64, journalBytes: UInt64, size: UInt64) {
        self.sequence = sequence
        self.journalBytes = journalBytes
        self.size = size
    }
}

/// What a journal reports to the queue.
package enum JournalEvent: Sendable {
    case entry(JournalEntry)
    /// Which entries there are. Comes before the entries of each ``Journal/read(after:)``.
    case extent(JournalExtent)
    /// The storage has no room for a record. Another copy of it may have been stored. `isFull` says whether the journal
    /// has reached its maximum size, so that deleting entries makes room.
    case refused(number: UInt64, reason: String, isFull: Bool)
    /// Entries may be missing.
    case interrupted
    /// There is a new connection. Records that were appended before may be lost, and entries may be missing.
    case reconnected
    /// The journal can neither be read nor appended to any more.
    case closed(QueueError)
}
