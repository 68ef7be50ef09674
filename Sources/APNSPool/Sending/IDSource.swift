import APNSModel
import Synchronization

/// Makes `apns-id`s: random UUIDs (RFC 9562, version 4) from a generator that asks the system for its seed once. A
/// system call for each id would cost more than the rest of a push.
final class IDSource: Sendable {
    /// xoshiro256** (Blackman, Vigna): good for ids, not for secrets.
    struct Generator: RandomNumberGenerator {
        private var s: (UInt64, UInt64, UInt64, UInt64)

        init() {
            var system = SystemRandomNumberGenerator()
            self.s = (system.next() | 1, system.next(), system.next(), system.next())
        }

        mutating func next() -> UInt64 {
            let result = Self.rotate(self.s.1 &* 5, 7) &* 9
            let t = self.s.1 << 17
            self.s.2 ^= self.s.0
            self.s.3 ^= self.s.1
            self.s.1 ^= self.s.2
            self.s.0 ^= self.s.3
            self.s.2 ^= t
            self.s.3 = Self.rotate(self.s.3, 45)
            return result
        }

        private static func rotate(_ x: UInt64, _ k: UInt64) -> UInt64 { (x << k) | (x >> (64 - k)) }
    }

    private let generator = Mutex(Generator())

    func next() -> APNSID {
        self.generator.withLock { APNSID.random(using: &$0) }
    }
}
