/// Counts how many elements at the start of an input are done, if elements finish in any order: the value for a
/// checkpoint.
///
/// It keeps one bit for each element between the first unfinished one and the last finished one. Pure.
package struct CompletedPrefix: Sendable {
    /// The number of elements at the start of the input that are all done.
    package private(set) var count: UInt64 = 0
    /// The bits of the elements from `count`, rounded down to a multiple of 64, in a ring.
    private var words: [UInt64] = [0]
    private var head = 0
    private var firstWord: UInt64 = 0

    package init() {}

    /// Marks the element with this number, counted from 0, as done. Idempotent.
    package mutating func complete(_ number: UInt64) {
        let word = number >> 6
        guard word >= self.firstWord else { return }
        let distance = word - self.firstWord
        if distance >= UInt64(self.words.count) { self.grow(to: distance + 1) }
        let place = (self.head + Int(distance)) & (self.words.count - 1)
        self.words[place] |= 1 << (number & 63)
        if distance == 0 { self.advance() }
    }

    private mutating func advance() {
        while self.words[self.head] == .max {
            self.words[self.head] = 0
            self.head = (self.head + 1) & (self.words.count - 1)
            self.firstWord += 1
        }
        self.count = self.firstWord << 6 + UInt64((~self.words[self.head]).trailingZeroBitCount)
    }

    private mutating func grow(to least: UInt64) {
        var size = self.words.count
        while size < least { size *= 2 }
        var larger = [UInt64](repeating: 0, count: size)
        for offset in self.words.indices { larger[offset] = self.words[(self.head + offset) & (self.words.count - 1)] }
        self.words = larger
        self.head = 0
    }
}
