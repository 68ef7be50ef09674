#if Sealing
    import APNSBasics
    import APNSModel
    import Foundation
    import Testing

    @testable import APNSSealing

    struct SealingTests {
        private let key = SealingKey()

        @Test(arguments: [SealedSize.standard, .voip])
        func contentOfEveryLengthHasTheSameSize(size: SealedSize) throws {
            let sealer = PayloadSealer(key: key, size: size)
            let opener = PayloadOpener(key: key)
            var sizes: Set<Int> = []
            var returned = 0
            for length in 0...size.contentLimit {
                let content = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ length) }
                let sealed = try sealer.seal(bytes: content, at: .start)
                let text = sealed.text
                sizes.insert(text.utf8.count)
                sizes.insert(sealed.bytes.count * 4 / 3)
                if try opener.open(SealedPayload(text: text), at: .start).content == content { returned += 1 }
            }
            #expect(sizes == [size.textCount])
            #expect(returned == size.contentLimit + 1)
        }

        /// The ciphertext does not show the length either: its bytes are equally random for short and long content.
        @Test func sealedBytesAreUniform() throws {
            for length in [0, SealedSize.standard.contentLimit] {
                var counts = [Int](repeating: 0, count: 256)
                let sealer = PayloadSealer(key: key)
                for _ in 0..<200 {
                    let sealed = try sealer.seal(bytes: [UInt8](repeating: 0, count: length))
                    for byte in sealed.bytes.dropFirst(SealedPayload.headerCount) { counts[Int(byte)] += 1 }
                }
                let expected = Double(counts.reduce(0, +)) / 256
                let chiSquare = counts.reduce(0.0) { $0 + pow(Double($1) - expected, 2) / expected }
                // 255 degrees of freedom: above 400 once in 10^8 runs.
                #expect(chiSquare < 400, "length \(length)")
            }
        }

        @Test func theErrorForTooLongContentHasBothLengths() throws {
            let size = try SealedSize(contentLimit: 100)
            let sealer = PayloadSealer(key: key, size: size)
            _ = try sealer.seal(bytes: [UInt8](repeating: 1, count: 100))
            let error = sealingError { try sealer.seal(bytes: [UInt8](repeating: 1, count: 101)) }
            #expect(error == SealingError(.contentTooLong, actual: 101, limit: 100))
            #expect(error?.description.contains("101 instead of at most 100") == true)
            let encoded = sealingError { try sealer.seal(encoding: String(repeating: "x", count: 99)) }
            #expect(encoded == SealingError(.contentTooLong, actual: 101, limit: 100))
        }

        @Test func valuesWithoutJSONAreRefused() {
            let error = sealingError { try PayloadSealer(key: key).seal(encoding: [Double.infinity]) }
            #expect(error?.code == .notEncodable)
        }

        @Test func valuesAndSequencesRoundTrip() throws {
            struct Message: Codable, Equatable {
                var from: String
                var text: String
            }
            let sealer = PayloadSealer(key: key)
            let opener = PayloadOpener(key: key)
            let message = Message(from: "Ada", text: "Half past \u{1F557}, \"Fern\"")
            #expect(try opener.open(sealer.seal(encoding: message)).decoded() == message)
            #expect(try opener.open(sealer.seal(bytes: Data([1, 2, 3]))).content == [1, 2, 3])
            let wrong = sealingError {
                try opener.open(sealer.seal(encoding: "text")).decoded(as: Message.self)
            }
            #expect(wrong?.code == .notDecodable)
        }

        @Test func theSameContentIsSealedDifferently() throws {
            let sealer = PayloadSealer(key: key)
            let texts = try (0..<100).map { _ in try sealer.seal(bytes: [7], at: .start).text }
            #expect(Set(texts).count == 100)
        }

        // Seconds instead of a `Date`, whose description traps on infinity.
        @Test(
            arguments: [
                (1_800_000_000, 1_800_000_000_000),
                (1_800_000_000.1239, 1_800_000_000_124),
                (-5, 0),
                (.nan, 0),
                (-.infinity, 0),
                (.infinity, (1 << 48) - 1),
                (1e300, (1 << 48) - 1),
            ] as [(Double, Int64)]
        )
        func theTimeIsSealedInMilliseconds(seconds: Double, milliseconds: Int64) throws {
            let sealed = try PayloadSealer(key: key).seal(bytes: [], at: Date(timeIntervalSince1970: seconds))
            let opened = try PayloadOpener(key: key).open(sealed)
            #expect(opened.time.count == milliseconds)
            #expect(opened.sealedAt.timeIntervalSince1970 == Double(milliseconds) / 1_000)
        }

        @Test func sizesAreAsDocumented() throws {
            #expect(SealedSize.standard.contentLimit == 2_643)
            #expect(SealedSize.standard.textCount == 4_096 - 512)
            #expect(SealedSize.voip.contentLimit == 3_411)
            #expect(SealedSize.voip.textCount == 5_120 - 512)
            #expect(try SealedSize(payloadLimit: PushType.alert.payloadLimit) == .standard)
            #expect(try SealedSize(payloadLimit: PushType.voip.payloadLimit) == .voip)
            #expect(try SealedSize(contentLimit: 2_643) == .standard)
        }

        @Test func aSizeUsesAllOfItsLimit() throws {
            for limit in 600...1_400 {
                let size = try SealedSize(payloadLimit: limit)
                #expect(size.textCount <= limit - 512)
                #expect(Base64.urlTextCount(of: size.sealedCount + 1) > limit - 512)
            }
        }

        @Test func impossibleSizesAreRefused() {
            for (limit, reserve) in [
                (0, 0), (512, 512), (4_096, 4_096), (4_096, -1), (Int.min, 1), (Int.max, 0), (60, 0), (90_000, 0),
            ] {
                let error = sealingError { try SealedSize(payloadLimit: limit, reserve: reserve) }
                #expect(error?.code == .sizeImpossible, "\(limit) - \(reserve)")
            }
            for limit in [Int.min, -1, 0, 65_536, Int.max] {
                #expect(sealingError { try SealedSize(contentLimit: limit) }?.code == .sizeImpossible, "\(limit)")
            }
        }

        @Test(arguments: [1, 2, 3, 255, 256, 65_535]) func anySizeHoldsItsLimit(limit: Int) throws {
            let size = try SealedSize(contentLimit: limit)
            let content = (0..<limit).map { UInt8(truncatingIfNeeded: $0) }
            let sealed = try PayloadSealer(key: key, size: size).seal(bytes: content)
            #expect(sealed.text.utf8.count == size.textCount)
            #expect(try PayloadOpener(key: key).open(sealed).content == content)
        }
    }
#endif
