/// What the writer remembers between transactions.
package struct WriterState: Sendable {
    var names = NameTable()
    package internal(set) var totals = QueueTotals()
    /// The next row of `push`. No row of `outcome` or `idempotency` has this position.
    package internal(set) var nextPosition: Int64 = 1
    /// The next row of `outcome`. Never used twice, not even after a row was deleted.
    package internal(set) var nextCursor: Int64 = 1
    /// The epoch of the next claims. Increases over all processes that have opened the file.
    package var nextEpoch: Int64 = 1

    package init() {}
}
