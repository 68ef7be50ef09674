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
    /// The number of pushes that were parked, because they may have been sent before.
    public var parked: Int

    public init(parked: Int) {
        self.parked = parked
    }
}
