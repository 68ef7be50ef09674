#if Sealing
    import Crypto
    import Testing

    @testable import APNSSealing

    struct NonceTests {
        /// The generator's own nonces, as `seal` draws them. Of two million random ones, two are equal once in 4 · 10^16
        /// runs; of a counter or a seed that begins anew, soon.
        @Test func twoMillionWithoutARepeat() {
            let count = 2_000_000
            var seen = Set<UInt128>(minimumCapacity: count)
            var ones = 0
            for _ in 0..<count {
                let number = Primitives.freshNonce().withUnsafeBytes { bytes in
                    UInt128(bytes.loadUnaligned(as: UInt64.self)) << 32
                        | UInt128(bytes.loadUnaligned(fromByteOffset: 8, as: UInt32.self))
                }
                ones += number.nonzeroBitCount
                seen.insert(number)
            }
            #expect(seen.count == count)
            // Half of the bits, within six standard deviations.
            let bits = Double(count * 96)
            #expect(abs(Double(ones) - bits / 2) < 6 * (bits / 4).squareRoot())
        }

        /// What is sealed carries them: each payload another one, also when content, key and time are the same.
        @Test func eachPayloadHasItsOwn() throws {
            let sealer = PayloadSealer(key: SealingKey(), size: try SealedSize(contentLimit: 1))
            let ids = try (0..<10_000).map { _ in try sealer.seal(bytes: [1], at: .start).messageID }
            #expect(Set(ids).count == ids.count)
        }
    }
#endif
