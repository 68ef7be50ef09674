import PushQueue

/// The writer's state between transactions.
struct WriterState: Sendable {
    var names = NameTable()
    var totals = QueueTotals()
    /// The position of the next row of `push`. No row of `outcome` or `idempotency` has it.
    var nextPosition: Int64 = 1
    /// The cursor of the next row of `outcome`. A cursor is never used twice, not even after its row was deleted.
    var nextCursor: Int64 = 1
    /// The epoch of the next claims. It is larger than every epoch of earlier processes that opened the file.
    var nextEpoch: Int64 = 1

    /// Identifies the file and its copies.
    var queue: Int64 = 0
    /// How often the file was opened.
    var opening: Int64 = 0

    /// How far the queue has come.
    var progress: QueueProgress {
        QueueProgress(queue: self.queue, history: self.opening, epoch: 0, position: self.nextCursor - 1)
    }

    init() {}
}
