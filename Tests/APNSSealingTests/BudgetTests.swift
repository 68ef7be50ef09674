#if Sealing
    import APNSModel
    import Foundation
    import Testing

    @testable import APNSSealing

    /// The bound on the payload, through the encoder that sends it.
    struct BudgetTests {
        private static let reserve = SealedSize.defaultReserve

        /// A notification of the type that fills the reserve to the byte: with a fallback alert where the type may show
        /// one, with another custom value where it may not.
        private func notification(_ type: PushType, sealed: SealedPayload, filler: String) -> PushNotification {
            let key = SealedPayload.defaultKey
            switch type {
            case .alert:
                return PushNotification(topic: "com.grasscove.Fern", alert: Alert(title: "New message", body: filler))
                    .mutableContent().custom(key: key, sealed)
            case .background:
                return .background(topic: "com.grasscove.Fern").custom(key: "filler", filler).custom(key: key, sealed)
            case .liveactivity:
                return .liveActivity(topic: "com.grasscove.Fern", event: .update).timestamp(
                    secondsSince1970: 1_700_000_000
                )
                .contentState(["eta": 1]).custom(key: "filler", filler).custom(key: key, sealed)
            default:
                return PushNotification(topic: "com.grasscove.Fern", pushType: type)
                    .custom(key: "filler", filler).custom(key: key, sealed)
            }
        }

        private func filler(_ type: PushType, sealed: SealedPayload) throws -> String {
            let bare = try notification(type, sealed: sealed, filler: "").prepared(skippingValidation: true)
            return String(repeating: "x", count: Self.reserve - (bare.payload.count - sealed.text.utf8.count))
        }

        /// Every push type that Apple names, every length from nothing to the maximum, with a full reserve: all payloads
        /// have the same number of bytes, and APNs takes it.
        @Test(arguments: PushType.known)
        func everyLengthOfEveryTypeFits(type: PushType) throws {
            let size = try SealedSize(payloadLimit: type.payloadLimit)
            #expect(size == (type == .voip ? .voip : .standard))
            let key = SealingKey()
            let sealer = PayloadSealer(key: key, size: size)
            let filler = try filler(type, sealed: sealer.seal(bytes: []))
            var counts: Set<Int> = []
            for length in 0...size.contentLimit {
                let sealed = try sealer.seal(bytes: [UInt8](repeating: 0x2F, count: length), at: .start)
                counts.insert(try notification(type, sealed: sealed, filler: filler).prepared().payload.count)
            }
            #expect(counts == [type.payloadLimit])
        }

        /// And the limit is one: a byte more of anything and APNSModel refuses.
        @Test(arguments: PushType.known)
        func aByteMoreDoesNot(type: PushType) throws {
            let sealed = try PayloadSealer(key: SealingKey(), size: SealedSize(payloadLimit: type.payloadLimit)).seal(
                bytes: [])
            let filler = try filler(type, sealed: sealed) + "x"
            let error = #expect(throws: ValidationError.self) {
                try notification(type, sealed: sealed, filler: filler).prepared()
            }
            #expect(error?.code == .payloadTooLarge)
            #expect(error?.actual == type.payloadLimit + 1)
        }

        @Test func theReserveOfTheDocumentation() throws {
            let sealed = try PayloadSealer(key: SealingKey()).seal(bytes: [])
            let payload = try PushNotification(topic: "com.grasscove.Fern", alert: "New message").mutableContent()
                .custom(key: SealedPayload.defaultKey, sealed).prepared().payload
            #expect(payload.count - sealed.text.utf8.count == 63)
        }

        /// Other writers of JSON make no more of it: none escapes a character of the text.
        @Test func theTextIsAsLongForEveryEncoder() throws {
            let key = SealingKey()
            for _ in 0..<100 {
                let sealed = try PayloadSealer(key: key).seal(bytes: [])
                let data = try JSONEncoder().encode([sealed])
                #expect(data.count == SealedSize.standard.textCount + 4)
                #expect(try JSONDecoder().decode([SealedPayload].self, from: data) == [sealed])
            }
        }
    }
#endif
