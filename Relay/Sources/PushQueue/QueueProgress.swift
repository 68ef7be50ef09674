/// How far a queue has come. A copy of the queue from an earlier time has come less far, so a relay that remembers the
/// progress notices when a backup was restored.
public struct QueueProgress: Sendable, Hashable, Codable {
    /// A random number that a queue has from its creation. Its copies have the same number.
    public var queue: Int64
    /// A number that increases: with each history of a database, or each opening of a file.
    public var history: Int64
    /// The largest epoch of a claim.
    public var epoch: Int64
    /// The last position of the feed.
    public var position: Int64

    public init(queue: Int64, history: Int64, epoch: Int64, position: Int64) {
        self.queue = queue
        self.history = history
        self.epoch = epoch
        self.position = position
    }

    /// Whether the queue with this progress is an older copy of the queue with another progress.
    package func isBehind(_ seen: QueueProgress) -> Bool {
        guard self.queue == seen.queue else { return false }
        return self.history < seen.history || self.epoch < seen.epoch || self.position < seen.position
    }

    /// The progress of both. Of different queues, the other one.
    package func merged(with other: QueueProgress) -> QueueProgress {
        guard self.queue == other.queue else { return other }
        return QueueProgress(
            queue: self.queue,
            history: max(self.history, other.history),
            epoch: max(self.epoch, other.epoch),
            position: max(self.position, other.position)
        )
    }
}

/// A restore of the queue, or the promotion of a standby, as an engine has noticed it.
public struct QueueRestore: Sendable, Hashable {
    /// The numbers of pushes that were parked, because they may have been sent before.
    public var parked: [Route.Destination: Int]

    public init(parked: [Route.Destination: Int] = [:]) {
        self.parked = parked
    }

    /// The number of all pushes that were parked.
    public var parkedCount: Int { self.parked.values.reduce(0, +) }
}

/// What a queue does after a restore or the promotion of a standby with the pushes that may have been sent in the time that
/// the queue has lost: those that are due, and those in flight.
public enum AfterFailover: Sendable, Hashable {
    /// Parks them. Those whose owner wants them sent again anyway stay queued.
    case park
    /// Goes on, as after the death of a process. Use it if a promoted standby never lacks a commit (synchronous replication),
    /// or if it is harmless to send a push twice.
    case send
}
