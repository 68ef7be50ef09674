import APNSModel
import Foundation
import TestSupport
import Testing

/// Bytes that a fuzzer chooses, instead of those of APNs or of a queue that stores notifications.
struct FuzzTests {
    @Test("A response's body is parsed or kept as bytes") func fuzzResponseBody() throws {
        try Fuzz.run("response-body") { bytes in
            var input = bytes[...]
            let status = [200, 400, 403, 410, 429, 500, 503, 0][Int((input.popFirst() ?? 0) % 8)]
            let rejection = Rejection(status: status, body: input)
            #expect(rejection.rawBody.count <= Rejection.maximumBodySize)
            _ = rejection.meaning
            _ = rejection.invalidation
            // The coded form, which results files and queues contain, keeps everything.
            let again = try JSONDecoder().decode(Rejection.self, from: JSONEncoder().encode(rejection))
            #expect(again == rejection)
        }
    }

    @Test("Coded notifications, prepared pushes and outcomes are decoded or refused, and decoding is stable")
    func fuzzDecoding() throws {
        func check<Value: Codable & Equatable>(_ type: Value.Type, _ data: Data) throws {
            guard let value = try? JSONDecoder().decode(type, from: data) else { return }
            let again = try JSONDecoder().decode(type, from: JSONEncoder().encode(value))
            #expect(again == value)
        }
        try Fuzz.run("decoding") { bytes in
            let data = Data(bytes.dropFirst())
            switch (bytes.first ?? 0) % 5 {
            case 0:
                guard let notification = try? JSONDecoder().decode(PushNotification.self, from: data) else { return }
                guard let push = try? notification.prepared() else { return }
                let coded = try JSONEncoder().encode(notification)
                let again = try JSONDecoder().decode(PushNotification.self, from: coded).prepared()
                #expect(again.payload.count == push.payload.count)
            case 1: try check(PreparedPush.self, data)
            case 2: try check(PushOutcome.self, data)
            case 3: try check(DeviceToken.self, data)
            default: try check(Expiration.self, data)
            }
        }
    }

    @Test("The JSON writer and Foundation write the same JSON") func fuzzJSONWriter() throws {
        try Fuzz.run("json-writer") { bytes in
            var random = SeededRandom(bytes: bytes)
            let encoder = EncoderTests()
            repeat { try encoder.expectEqual(Sample.random(depth: 4, using: &random)) } while !random.isUsedUp
        }
    }
}
