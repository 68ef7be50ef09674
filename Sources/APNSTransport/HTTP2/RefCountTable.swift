/// Values shared by several streams of one session, with plain reference counts. The value itself is retained once
/// instead of once per stream: a Swift retain would cost an atomic operation per push, on memory that other threads
/// also use.
struct RefCountTable<Value> {
    private struct Entry {
        var value: Value?
        var uses: Int32

        mutating func removeUse() -> Bool {
            self.uses -= 1
            guard self.uses == 0 else { return false }
            self.value = nil
            return true
        }
    }

    private var entries: [Entry] = []
    private var free: [Int32] = []

    /// No entry. Retaining and releasing it has no effect.
    static var none: Int32 { -1 }

    /// Adds a value, and returns its entry with one use.
    mutating func insert(_ value: Value) -> Int32 {
        if let entry = self.free.popLast() {
            self.entries[Int(entry)] = Entry(value: value, uses: 1)
            return entry
        }
        self.entries.append(Entry(value: value, uses: 1))
        return Int32(truncatingIfNeeded: self.entries.count - 1)
    }

    /// Adds one use.
    mutating func retain(entry: Int32) {
        if entry >= 0 { self.entries[Int(entry)].uses += 1 }
    }

    /// Removes one use. Returns `true` if it was the last one: the value is then released, and the entry may be reused.
    @discardableResult
    mutating func release(entry: Int32) -> Bool {
        guard entry >= 0, self.entries[Int(entry)].removeUse() else { return false }
        self.free.append(entry)
        return true
    }

    subscript(entry: Int32) -> Value? { entry >= 0 ? self.entries[Int(entry)].value : nil }

    /// The number of values in the table.
    var count: Int { self.entries.count - self.free.count }
}
