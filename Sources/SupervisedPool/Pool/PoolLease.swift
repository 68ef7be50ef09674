/// The right to use slots of one worker. What is left of it is returned when it goes out of scope, whatever happens.
public struct PoolLease<Worker: PoolWorker>: ~Copyable, Sendable {
    /// The worker whose slots these are.
    public let worker: Worker
    /// Which worker and session; goes with the slots that ``take(_:)`` moves away.
    public let origin: LeaseOrigin
    /// How many slots this lease holds.
    public private(set) var count: Int
    private var isBroken = false
    private let mailbox: Mailbox<PoolItem>

    init(worker: Worker, origin: LeaseOrigin, count: Int, mailbox: Mailbox<PoolItem>) {
        self.worker = worker
        self.origin = origin
        self.count = count
        self.mailbox = mailbox
    }

    /// Returns the slots now.
    public consuming func release() {}

    /// Takes up to `wanted` slots out of the lease. The caller must return each of them with
    /// ``Pool/checkin(_:count:)`` and this lease's ``grant``, exactly once.
    ///
    /// - Returns: how many were taken: `wanted` or ``count``, whichever is less.
    public mutating func take(_ wanted: Int) -> Int {
        let taken = max(0, min(wanted, self.count))
        self.count -= taken
        return taken
    }

    /// Says that the worker's session must not be used any more. The pool has it replaced
    /// (``PoolWorkerDisconnectReason/replacement``) when the lease is returned; others that are leased of it go on.
    public mutating func markBroken() { self.isBroken = true }

    deinit {
        // First, so that nobody is given the slot that comes back.
        if self.isBroken { self.mailbox.post(.broken(self.origin), isUrgent: true) }
        if self.count > 0 { self.mailbox.post(.checkin(self.origin, self.count)) }
    }
}
