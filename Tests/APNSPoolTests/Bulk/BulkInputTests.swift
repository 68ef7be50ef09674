import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The inputs of a bulk call: device tokens and their text, notifications and prepared pushes, closures that throw.
struct BulkInputTests {
    private struct NoAddress: Error, CustomStringConvertible {
        var description: String { "user 7 has no device" }
    }

    private let texts = ["00fa11ce", "00FA11CF", "no token", ""]

    @Test("Text is accepted as a device token; a row with invalid text is not sent")
    func text() async throws {
        try await withServer { client, server in
            let summary = await client.sendAll(samplePush(), to: self.texts)
            #expect(summary.accepted == 2 && summary.notSent == 2)
            let slices = await client.sendAll(
                samplePush(),
                to: "00fa11ce 00fa11cf".split(separator: " ") as [Substring]
            )
            #expect(slices.accepted == 2)
            var codes: [String: ValidationError.Code] = [:]
            for await delivery in client.deliveries(of: samplePush(), to: self.texts) {
                codes[delivery.element] = delivery.outcome.error?.validation?.code
            }
            #expect(codes == ["no token": .deviceTokenNotHexadecimal, "": .deviceTokenEmpty])
            #expect(Set(server.record.pushes.map { $0.deviceToken?.hexadecimal }) == ["00fa11ce", "00fa11cf"])
        }
    }

    @Test("An asynchronous input may give text or device tokens, and may throw")
    func asynchronous() async throws {
        try await withServer { client, _ in
            let (stream, lines) = AsyncStream<String>.makeStream()
            for text in self.texts { lines.yield(text) }
            lines.finish()
            let summary = await client.sendAll(samplePush(), to: stream)
            #expect(summary.accepted == 2 && summary.notSent == 2)
            let (failing, tokens) = AsyncThrowingStream<DeviceToken, any Error>.makeStream()
            tokens.yield(.sample(1))
            tokens.finish(throwing: NoAddress())
            var accepted = 0
            await #expect(throws: NoAddress.self) {
                for try await delivery in client.deliveries(of: samplePush(), to: failing) {
                    if delivery.outcome.certainty == .accepted { accepted += 1 }
                }
            }
            #expect(accepted == 1)
        }
    }

    @Test("A notification is encoded once; one that cannot be encoded is sent to no device")
    func notification() async throws {
        try await withServer { client, server in
            let notification = PushNotification(topic: "com.example.app", alert: "Hello")
            #expect(await client.sendAll(notification, to: self.texts).accepted == 2)
            let tooLarge = PushNotification(topic: "com.example.app", alert: String(repeating: "x", count: 5000))
            for await delivery in client.deliveries(of: tooLarge, to: ["00fa11ce", "00fa11cf"]) {
                #expect(delivery.outcome.error?.validation?.code == .payloadTooLarge)
            }
            #expect(server.record.pushes.count == 2)
        }
    }

    @Test("A closure that throws ends only its own row")
    func throwing() async throws {
        try await withServer { client, server in
            let id = APNSID.random()
            var outcomes: [Int: PushOutcome] = [:]
            let deliveries = client.deliveries(0..<10, apnsID: { _ in id }) { row in
                if row == 7 { throw NoAddress() }
                return (PushNotification(topic: "com.example.app", alert: "Hello"), row == 8 ? "none" : "00fa11ce")
            }
            for await delivery in deliveries { outcomes[delivery.element] = delivery.outcome }
            #expect(outcomes.count == 10)
            #expect(outcomes.values.count { $0.certainty == .accepted } == 8)
            let error = try #require(outcomes[7]?.error)
            #expect(error.code == .validation && error.certainty == .notSent && error.apnsID == id)
            #expect(error.validation?.code == .rowInvalid)
            #expect(error.message.contains("user 7 has no device"), "\(error.message)")
            #expect(outcomes[8]?.error?.validation?.code == .deviceTokenNotHexadecimal)
            for await delivery in client.deliveries(of: samplePush(), to: [1], token: { _ in try self.noToken() }) {
                #expect(delivery.outcome.error?.validation?.code == .rowInvalid)
            }
            #expect(server.record.pushes.count == 8)
        }
    }

    private func noToken() throws -> DeviceToken { throw NoAddress() }

    @Test("Custom types can serve as the push and as the device token")
    func ownTypes() async throws {
        struct Greeting: PushContent {
            func prepared() throws(ValidationError) -> PreparedPush {
                try PushNotification(topic: "com.example.app", alert: "Hello").prepared()
            }
        }
        struct User: DeviceTokenConvertible {
            var device: String
            func deviceToken() throws(ValidationError) -> DeviceToken { try DeviceToken(self.device) }
        }
        try await withServer { client, _ in
            let sender: any PushSender = client
            #expect(await sender.deliver(Greeting(), to: User(device: "00fa11ce")).certainty == .accepted)
            #expect(await sender.deliver(Greeting(), to: User(device: "-")).error?.code == .validation)
            #expect(await sender.sendAll(Greeting(), to: [User(device: "00fa11ce")]).accepted == 1)
        }
    }
}
