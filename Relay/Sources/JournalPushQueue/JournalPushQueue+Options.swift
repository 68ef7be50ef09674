package import PushQueue

extension JournalPushQueue {
    package struct Options: Sendable {
        /// The file of this process's copy.
        package var file: String
        /// The most pushes without an outcome; nil for no limit.
        package var capacity: Int?
        /// How long a call waits for the journal.
        package var timeout: Duration
        /// A clock for tests, whose times are stored in the commands. If nil, a command has the time at which the
        /// journal stores it, which does not depend on the clock of any process.
        package var clock: (any QueueClock)?
        /// The clock of this machine. The queue must work even if it is wrong, so tests replace it.
        package var systemClock: any QueueClock = SystemQueueClock()
        /// How many bytes of entries, at least, lie between two snapshots.
        package var snapshotBytes: UInt64
        /// The most pages of the file; a full disk for tests.
        package var maxPageCount: Int?

        package init(
            file: String,
            capacity: Int? = nil,
            timeout: Duration = .seconds(30),
            clock: (any QueueClock)? = nil,
            snapshotBytes: UInt64 = 256 * 1_024 * 1_024
        ) {
            self.file = file
            self.capacity = capacity
            self.timeout = timeout
            self.clock = clock
            self.snapshotBytes = max(snapshotBytes, 1)
        }
    }
}
