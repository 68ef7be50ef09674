import APNSModel
import APNSBasics
import Synchronization

/// Generates `apns-id`s without a lock: random UUIDs (RFC 9562, version 4) from a counter and two keys that are drawn
/// once. A system call for each id would cost more than the rest of a push. The ids are unique, but not suitable as
/// secrets.
final class IDSource: Sendable {
    /// The two 64-bit halves of one id.
    private struct Halves: RandomNumberGenerator {
        var high: UInt64
        var low: UInt64

        mutating func next() -> UInt64 {
            defer { self.high = self.low }
            return self.high
        }
    }

    // SplitMix64 is a bijection, so its outputs do not repeat. The version and variant then overwrite a few bits of
    // each half.
    private let highKey: UInt64
    private let lowKey: UInt64
    private let count = Atomic<UInt64>(0)

    init() {
        var system = SystemRandomNumberGenerator()
        self.highKey = system.next()
        self.lowKey = system.next()
    }

    func next() -> APNSID {
        let step = self.count.wrappingAdd(1, ordering: .relaxed).oldValue
        var high = SplitMix64(seed: self.highKey &+ step)
        var low = SplitMix64(seed: self.lowKey &+ step)
        var halves = Halves(high: high.next(), low: low.next())
        return APNSID.random(using: &halves)
    }
}
