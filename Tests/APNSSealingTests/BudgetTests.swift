#if Sealing
    import APNSModel
    import Foundation
    import Testing

    @testable import APNSSealing

    /// The limit on the payload's size, checked with the encoder that sends the payload.
    struct BudgetTests {
        private static let reserve = SealedSize.defaultReserve

        /// A notification of the type that fills the reserve to the byte: with a fallback alert if the type may show
        /// one, else with another custom value.
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

        /// For every push type that Apple names and every length from 0 to the maximum, with a full reserve: all
        /// payloads have the same size, which APNs accepts.
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

        /// The limit is exact: APNSModel refuses one more byte.
        @Test(arguments: PushType.known)
        func oneByteTooManyIsRefused(type: PushType) throws {
            let sealed = try PayloadSealer(key: SealingKey(), size: SealedSize(payloadLimit: type.payloadLimit)).seal(
                bytes: [])
            let filler = try filler(type, sealed: sealed) + "x"
            let error = #expect(throws: ValidationError.self) {
                try notification(type, sealed: sealed, filler: filler).prepared()
            }
            #expect(error?.code == .payloadTooLarge)
            #expect(error?.actual == type.payloadLimit + 1)
        }

        @Test func theDocumentedReserveIsUsed() throws {
            let sealed = try PayloadSealer(key: SealingKey()).seal(bytes: [])
            let payload = try PushNotification(topic: "com.grasscove.Fern", alert: "New message").mutableContent()
                .custom(key: SealedPayload.defaultKey, sealed).prepared().payload
            #expect(payload.count - sealed.text.utf8.count == 63)
        }

        /// Other JSON encoders add no bytes, since the text has no characters that need an escape.
        @Test func everyEncoderWritesTheTextWithoutEscapes() throws {
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
