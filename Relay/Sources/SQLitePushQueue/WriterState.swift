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

    /// The pushes of the `enqueue` call that is being stored in parts; nil if there is none.
    var staged: StagedPushes?

    init() {}
}

/// The last rows of `push`, which are hidden from everything except the intake. A row of `counter` stores this value.
struct StagedPushes: Sendable, Hashable {
    /// The first hidden position.
    var first: Int64
    /// Whether all pushes of the call are stored. If so, they are queued one after the other, even after a crash. If
    /// not, the next start after a crash deletes them.
    var isComplete = false

    /// The name of the row of `counter` that stores `first`.
    var counter: String { self.isComplete ? Self.complete : Self.incomplete }

    static let incomplete = "staging"
    static let complete = "publishing"
}
