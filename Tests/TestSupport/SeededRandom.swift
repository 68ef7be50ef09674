import APNSBasics

/// Random numbers that a seed repeats (SplitMix64), or that a fuzzer chooses. A failing test prints the seed.
public struct SeededRandom: RandomNumberGenerator, Sendable, CustomStringConvertible {
    /// The seed of the sequence. A fuzzer's sequence continues with it after its bytes.
    public let seed: UInt64
    private var numbers: SplitMix64
    /// The bytes that determine the first numbers, two for each.
    private var bytes: ArraySlice<UInt8> = []

    /// Starts the sequence of `seed`, by default a new one each time.
    public init(seed: UInt64 = UInt64.random(in: .min ... .max)) {
        self.seed = seed
        self.numbers = SplitMix64(seed: seed)
    }

    /// Starts a sequence that these bytes determine. A number takes two bytes, so that a fuzzer that changes a byte
    /// changes one decision.
    public init(bytes: [UInt8]) {
        self.init(seed: 0)
        self.bytes = bytes[...]
    }

    /// Whether no byte determines the next number.
    public var isUsedUp: Bool { bytes.isEmpty }

    public mutating func next() -> UInt64 {
        guard let high = bytes.popFirst() else { return numbers.next() }
        let low = bytes.popFirst() ?? 0
        // In all 16-bit groups: `Int.random` takes the highest bits, `Bool.random` bit 17, and narrow types the lowest
        // bits. The lowest group differs, because `random(in:using:)` rejects numbers such as 0.
        return (UInt64(high) << 8 | UInt64(low)) &* 0x0001_0001_0001_0001 ^ 0x5555
    }

    public var description: String { "seed \(seed)" }
}
