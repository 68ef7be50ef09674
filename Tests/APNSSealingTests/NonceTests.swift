#if Sealing
    import Crypto
    import Testing

    @testable import APNSSealing

    struct NonceTests {
        /// The generator's nonces, drawn as `seal` draws them. Among two million random nonces, two are equal in one of
        /// 4 · 10^16 runs. A counter or a seed that restarts would repeat soon.
        @Test func twoMillionNoncesDoNotRepeat() {
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

        /// Each sealed payload has its own nonce, even if content, key and time are the same.
        @Test func eachPayloadHasItsOwnNonce() throws {
            let sealer = PayloadSealer(key: SealingKey(), size: try SealedSize(contentLimit: 1))
            let ids = try (0..<10_000).map { _ in try sealer.seal(bytes: [1], at: .start).messageID }
            #expect(Set(ids).count == ids.count)
        }
    }
#endif
