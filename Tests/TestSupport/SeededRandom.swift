import APNSBasics

/// Random numbers that a seed repeats (SplitMix64). A failing test prints the seed.
public struct SeededRandom: RandomNumberGenerator, Sendable, CustomStringConvertible {
    /// The seed of the sequence.
    public let seed: UInt64
    private var numbers: SplitMix64

    /// Starts the sequence of `seed`, by default a new one each time.
    public init(seed: UInt64 = UInt64.random(in: .min ... .max)) {
        self.seed = seed
        self.numbers = SplitMix64(seed: seed)
    }

    public mutating func next() -> UInt64 { numbers.next() }

    public var description: String { "seed \(seed)" }
}
