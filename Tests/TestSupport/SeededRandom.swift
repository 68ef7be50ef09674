/// Random numbers that a seed repeats (SplitMix64). A failing test prints the seed.
public struct SeededRandom: RandomNumberGenerator, Sendable, CustomStringConvertible {
    /// What the numbers follow from.
    public let seed: UInt64
    private var state: UInt64

    /// Begins the sequence of `seed`; a new one each time by default.
    public init(seed: UInt64 = UInt64.random(in: .min ... .max)) {
        self.seed = seed
        self.state = seed
    }

    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    public var description: String { "seed \(seed)" }
}
