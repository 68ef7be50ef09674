import APNSBasics
import Testing

struct SplitMix64Tests {
    @Test("A seed yields the same numbers as Sebastiano Vigna's reference implementation")
    func reference() {
        var random = SplitMix64(seed: 1_234_567)
        let numbers = (0..<5).map { _ in random.next() }
        #expect(
            numbers == [
                6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423,
                4_593_380_528_125_082_431, 16_408_922_859_458_223_821,
            ]
        )
    }

    @Test("unit() makes a number from 0 up to 1 of the high bits of the next number")
    func unit() {
        var random = SplitMix64(seed: 7)
        var same = random
        for _ in 0..<1000 {
            let unit = random.unit()
            #expect(unit == Double(same.next() >> 11) / 9_007_199_254_740_992)
            #expect((0..<1).contains(unit))
        }
    }

    @Test("Without a seed, two generators give different numbers")
    func noSeed() {
        var (first, second) = (SplitMix64(seed: nil), SplitMix64(seed: nil))
        #expect(first.next() != second.next())
    }
}
