/// How many of the first elements of an input are done, when they are done in any order: what a checkpoint may say. One
/// bit for each element between the first that is not done and the last that is. Pure.
package struct CompletedPrefix: Sendable {
    /// All elements with smaller numbers are done.
    package private(set) var count: UInt64 = 0
    /// Bits of the elements from `count` rounded down to 64 on, in a ring.
    private var words: [UInt64] = [0]
    private var head = 0
    private var firstWord: UInt64 = 0

    package init() {}

    /// The element with this number, counted from 0, is done. Idempotent.
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
