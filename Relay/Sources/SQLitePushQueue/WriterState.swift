/// What the writer remembers between transactions.
struct WriterState: Sendable {
    var names = NameTable()
    var totals = QueueTotals()
    /// The next row of `push`. No row of `outcome` or `idempotency` has this position.
    var nextPosition: Int64 = 1
    /// The next row of `outcome`. Never used twice, not even after a row was deleted.
    var nextCursor: Int64 = 1
    /// The epoch of the next claims. Increases over all processes that have opened the file.
    var nextEpoch: Int64 = 1
}
