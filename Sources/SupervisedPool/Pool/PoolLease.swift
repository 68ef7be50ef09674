/// The right to use streams of one worker. Streams that are still in the lease are returned when it goes out of scope.
public struct PoolLease<Worker: PoolWorker>: ~Copyable, Sendable {
    /// The worker that the streams belong to.
    public let worker: Worker
    /// The worker and connection of the streams. Needed to return streams that ``take(_:)`` moved out of the lease.
    public let origin: LeaseOrigin
    /// How many streams this lease holds.
    public private(set) var count: Int
    private let mailbox: Mailbox<PoolItem>

    init(worker: Worker, origin: LeaseOrigin, count: Int, mailbox: Mailbox<PoolItem>) {
        self.worker = worker
        self.origin = origin
        self.count = count
        self.mailbox = mailbox
    }

    /// Returns the streams now.
    public consuming func release() {}

    /// Moves up to `wanted` streams out of the lease. The caller must return each of them exactly once, with
    /// ``Pool/checkin(_:count:)`` and this lease's ``origin``.
    ///
    /// - Returns: How many streams were moved: `wanted` or ``count``, whichever is less.
    public mutating func take(_ wanted: Int) -> Int {
        let taken = max(0, min(wanted, self.count))
        self.count -= taken
        return taken
    }

    deinit {
        if self.count > 0 { self.mailbox.post(.checkin(self.origin, self.count)) }
    }
}
