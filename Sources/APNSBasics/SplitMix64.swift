/// A seeded random number generator with a small state (Sebastiano Vigna's SplitMix64), for jitter, the simulator and
/// tests.
///
/// A recorded seed replays a run, so the numbers of a seed never change. The generator is inlined into other modules,
/// because each push uses it; this also requires `@usableFromInline` on the type.
@usableFromInline
package struct SplitMix64: RandomNumberGenerator, Sendable {
    @usableFromInline var state: UInt64

    /// - Parameter seed: The seed; nil uses a random one.
    @inlinable
    package init(seed: UInt64?) {
        self.state = seed ?? UInt64.random(in: .min ... .max)
    }

    @inlinable
    package mutating func next() -> UInt64 {
        self.state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = self.state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to, but not including, 1.
    package mutating func unit() -> Double {
        Double(self.next() >> 11) * 0x1p-53
    }
}
