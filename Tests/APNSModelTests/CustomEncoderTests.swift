import APNSModel
import Foundation
import Testing

/// Custom values written by a `JSONEncoder` of the user's own.
struct CustomEncoderTests {
    private struct Order: Encodable, Sendable {
        var orderNumber = 7
        var placedAt = Date(timeIntervalSince1970: 0)
        var price = 12.5
    }

    private struct Broken: Encodable, Sendable {
        struct Failure: Error {}
        func encode(to encoder: any Encoder) throws { throw Failure() }
    }

    private var encoder: JSONEncoder {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.dateEncodingStrategy = .iso8601
        encoder.outputFormatting = .sortedKeys
        return encoder
    }

    private func text(_ notification: PushNotification) throws -> String {
        String(decoding: try notification.prepared().payload, as: UTF8.self)
    }

    private let notification = PushNotification(topic: "com.example.app", alert: "Hello")
    private let members = #""order_number":7,"placed_at":"1970-01-01T00:00:00Z","price":12.5"#

    @Test("The encoder decides how dates and keys are written")
    func strategies() throws {
        #expect(
            try self.text(self.notification.custom(Order(), encoder: self.encoder))
                == #"{"aps":{"alert":"Hello"},"# + self.members + "}"
        )
        #expect(
            try self.text(self.notification.custom(key: "order", Order(), encoder: self.encoder))
                == #"{"aps":{"alert":"Hello"},"order":{"# + self.members + "}}"
        )
        #expect(
            try self.text(
                self.notification.custom(key: "n", 1).custom(
                    key: "at",
                    Date(timeIntervalSince1970: 0),
                    encoder: self.encoder
                )
            )
                == #"{"aps":{"alert":"Hello"},"n":1,"at":"1970-01-01T00:00:00Z"}"#
        )
    }

    @Test("Pretty-printed JSON and an empty object are accepted, and a badge can be set afterwards")
    func pretty() throws {
        let encoder = self.encoder
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        let push = try self.notification.custom(Order(), encoder: encoder).custom([String: Int](), encoder: encoder)
            .prepared().badge(3)
        let object = try JSONSerialization.jsonObject(with: Data(push.payload)) as? NSDictionary
        let expected: NSDictionary = [
            "aps": ["alert": "Hello", "badge": 3],
            "order_number": 7, "placed_at": "1970-01-01T00:00:00Z", "price": 12.5,
        ]
        #expect(object == expected)
    }

    @Test("Preparing a notification reports values that cannot be encoded and keys that are in use")
    func errors() {
        func code(_ notification: PushNotification) -> ValidationError.Code? {
            do {
                _ = try notification.prepared()
                return nil
            } catch {
                return error.code
            }
        }
        #expect(code(self.notification.custom(Broken(), encoder: self.encoder)) == .notEncodable)
        #expect(code(self.notification.custom(key: "a", Double.nan, encoder: self.encoder)) == .notEncodable)
        #expect(code(self.notification.custom([1], encoder: self.encoder)) == .customNotAnObject)
        #expect(code(self.notification.custom(["aps": 1], encoder: self.encoder)) == .customKeyReserved)
        #expect(code(self.notification.custom(key: "aps", 1, encoder: self.encoder)) == .customKeyReserved)
        let twice = self.notification.custom(key: "price", 1).custom(Order(), encoder: self.encoder)
        #expect(code(twice) == .customKeyDuplicate)
        #expect(
            code(self.notification.custom(key: "price", 1, encoder: self.encoder).custom(["price": 2]))
                == .customKeyDuplicate
        )
        #expect(
            code(PushNotification(topic: "a", rawPayload: [0x7B, 0x7D]).custom(["b": 1], encoder: self.encoder))
                == .payloadIsRaw
        )
    }
}
