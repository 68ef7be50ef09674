/// The writer's state between transactions.
package struct WriterState: Sendable {
    var names = NameTable()
    package internal(set) var totals = QueueTotals()
    /// The next row of `push`. No row of `outcome` or `idempotency` has this position.
    package internal(set) var nextPosition: Int64 = 1
    /// The next row of `outcome`. Never used twice, not even after a row was deleted.
    package internal(set) var nextCursor: Int64 = 1
    /// The epoch of the next claims. Increases over all processes that have opened the file.
    package var nextEpoch: Int64 = 1

    /// The call of `enqueue` that is being stored in parts; nil if there is none.
    var staged: StagedPushes?

    package init() {}
}

/// The last rows of `push`, which nothing but the intake sees yet. Two rows of `counter` hold the same.
struct StagedPushes: Sendable, Hashable {
    /// The first hidden position.
    var first: Int64
    /// Whether all pushes of the call are stored. If so, they are queued one after the other, also after a crash;
    /// otherwise a crash undoes them.
    var isComplete = false

    /// The row of `counter` with `first`.
    var counter: String { self.isComplete ? Self.complete : Self.incomplete }

    static let incomplete = "staging"
    static let complete = "publishing"
}
