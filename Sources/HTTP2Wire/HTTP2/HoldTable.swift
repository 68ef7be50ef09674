/// Values that several streams of one session use, each counted by a plain number: the value is retained once, not once
/// a stream, which would be an atomic operation a push on memory that other threads use as well.
struct HoldTable<Value> {
    private var values: [Value?] = []
    private var uses: [Int32] = []
    private var free: [Int32] = []

    /// No slot: nothing is held.
    static var none: Int32 { -1 }

    /// A slot with one use.
    mutating func hold(_ value: Value) -> Int32 {
        if let slot = self.free.popLast() {
            self.values[Int(slot)] = value
            self.uses[Int(slot)] = 1
            return slot
        }
        self.values.append(value)
        self.uses.append(1)
        return Int32(truncatingIfNeeded: self.values.count - 1)
    }

    /// One use more.
    mutating func hold(slot: Int32) {
        if slot >= 0 { self.uses[Int(slot)] += 1 }
    }

    /// One use less. True: it was the last one, the value is released and the slot may be another's from now on.
    @discardableResult
    mutating func drop(slot: Int32) -> Bool {
        guard slot >= 0 else { return false }
        self.uses[Int(slot)] -= 1
        guard self.uses[Int(slot)] == 0 else { return false }
        self.values[Int(slot)] = nil
        self.free.append(slot)
        return true
    }

    subscript(slot: Int32) -> Value? { slot >= 0 ? self.values[Int(slot)] : nil }

    /// How many values are held.
    var count: Int { self.values.count - self.free.count }
}
