/// Values that several streams of one session use, each counted by a plain number: the value is retained once, not once
/// a stream, which would be an atomic operation a push on memory that other threads use as well.
struct RefCountTable<Value> {
    private var values: [Value?] = []
    private var uses: [Int32] = []
    private var free: [Int32] = []

    /// No entry: nothing is held.
    static var none: Int32 { -1 }

    /// An entry with one use.
    mutating func insert(_ value: Value) -> Int32 {
        if let entry = self.free.popLast() {
            self.values[Int(entry)] = value
            self.uses[Int(entry)] = 1
            return entry
        }
        self.values.append(value)
        self.uses.append(1)
        return Int32(truncatingIfNeeded: self.values.count - 1)
    }

    /// One use more.
    mutating func retain(entry: Int32) {
        if entry >= 0 { self.uses[Int(entry)] += 1 }
    }

    /// One use less. True: it was the last one, the value is released and the entry may be another's from now on.
    @discardableResult
    mutating func release(entry: Int32) -> Bool {
        guard entry >= 0 else { return false }
        self.uses[Int(entry)] -= 1
        guard self.uses[Int(entry)] == 0 else { return false }
        self.values[Int(entry)] = nil
        self.free.append(entry)
        return true
    }

    subscript(entry: Int32) -> Value? { entry >= 0 ? self.values[Int(entry)] : nil }

    /// How many values are held.
    var count: Int { self.values.count - self.free.count }
}
