package import PushQueue

/// A durable log that all processes append to and read in the same order. Each process has a reader of its own.
///
/// An appended record is stored once, later, or never; the queue appends it again until it has read it. A journal need
/// not notice that it has stored a record before.
package protocol Journal: Sendable {
    /// The most bytes of a record.
    var maximumRecord: Int { get }

    /// Where the journal begins and ended when it was opened.
    var extent: JournalExtent { get }

    /// Reads the entries after a position into ``events``, in order and without gaps, until the next call. Does not
    /// block. If entries after the position were deleted, it begins with the first one that is left.
    func read(after sequence: UInt64)

    /// What was read. The journal closes it.
    var events: JournalEvents { get }

    /// Appends a record. Does not block.
    ///
    /// - Parameters:
    ///   - record: the bytes.
    ///   - id: the same for each copy of a record.
    ///   - number: names the record in an event that says that it was refused.
    func append(_ record: [UInt8], id: String, number: UInt64)

    /// The newest snapshot of the queue; nil if there is none.
    func newestSnapshot() async throws(QueueError) -> JournalSnapshot?

    /// Writes a snapshot to a file.
    ///
    /// - Returns: false if the snapshot was deleted because there is a newer one.
    func load(_ snapshot: JournalSnapshot, into file: String) async throws(QueueError) -> Bool

    /// Stores a snapshot unless there is a newer one, then deletes the one before it and the entries which that one
    /// contains.
    ///
    /// - Parameters:
    ///   - snapshot: what it contains.
    ///   - file: its content.
    func store(_ snapshot: JournalSnapshot, from file: String) async throws(QueueError)

    /// Ends the reading. No event follows.
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

/// A file that holds the queue as it was after an entry.
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

/// What a journal tells its reader.
package enum JournalEvent: Sendable {
    case entry(JournalEntry)
    /// The journal did not store this copy of a record.
    case refused(number: UInt64, QueueError)
    /// Entries may be missing, because the connection was lost or the reader was too slow.
    case interrupted
}
