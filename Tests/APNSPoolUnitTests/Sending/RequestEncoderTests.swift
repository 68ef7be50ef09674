import APNSTransport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The request fields as a server receives them.
struct RequestEncoderTests {
    @Test func allFieldsOfAPushAreSentInOrder() async throws {
        try await withServer { client, server in
            let id = APNSID.random()
            let push = samplePush(
                expiration: .at(secondsSince1970: 4_000_000_000),
                collapseID: try CollapseID("news-1"),
                priority: .low
            )
            #expect(
                await client.deliver(push, to: deviceToken, options: DeliveryOptions(apnsID: id)).certainty == .accepted
            )
            let fields = try #require(server.record.pushes.first).fields
            #expect(
                fields.map { "\($0.name)=\($0.value)" } == [
                    ":path=/3/device/\(deviceToken.hexadecimal)", ":method=POST", ":scheme=https",
                    ":authority=localhost:\(server.port)", "apns-topic=com.example.app", "apns-push-type=alert",
                    "apns-priority=\(Priority.low.rawValue)", "apns-id=\(id)", "apns-expiration=4000000000",
                    "apns-collapse-id=news-1",
                ]
            )
        }
    }

    @Test func anUnsetOptionHasNoField() async throws {
        try await withServer { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            #expect(await client.deliver(samplePush(expiration: .immediate), to: deviceToken).certainty == .accepted)
            let pushes = server.record.pushes
            #expect(
                pushes[0].fields.map(\.name) == [
                    ":path", ":method", ":scheme", ":authority", "apns-topic", "apns-push-type", "apns-id",
                ]
            )
            #expect(pushes[1].field("apns-expiration") == "0")
        }
    }

    @Test func theAuthorityHasItsPortUnlessItIs443() {
        #expect(APNSEnvironment.production.authority == "api.push.apple.com")
        #expect(APNSEnvironment.custom(host: "a.example", port: 2197).authority == "a.example:2197")
        #expect(APNSEnvironment.custom(host: "::1", port: 443).authority == "[::1]")
        #expect(APNSEnvironment.custom(host: "::1", port: 8443).authority == "[::1]:8443")
    }

    @Test func manyKindsOfPushesDoNotKeepAllHeaderBlocks() {
        var blocks = HeaderBlocks(authority: "a")
        weak let first = blocks.block(for: samplePush(topic: "t"))
        for number in 0..<1000 { _ = blocks.block(for: samplePush(topic: "t\(number)")) }
        #expect(first == nil)
    }

    @Test func theLongestValuesFit() throws {
        var blocks = HeaderBlocks(authority: "a")
        let push = try PreparedPush(
            topic: "a",
            pushType: .alert,
            payload: Array("{}".utf8),
            expiration: .at(secondsSince1970: Int64.max),
            collapseID: try CollapseID(String(repeating: "x", count: 64)),
            skippingValidation: true
        )
        let request = RequestEncoder.request(
            push,
            block: blocks.block(for: push),
            to: deviceToken,
            id: APNSID.random(),
            credential: nil
        )
        #expect(request.values.count == 74 + 36 + 19 + 64)
        #expect(String(decoding: request.values.suffix(64), as: UTF8.self) == String(repeating: "x", count: 64))
    }

    /// Its values are longer than what is put together on the stack.
    @Test func theLongestTokenFits() throws {
        var blocks = HeaderBlocks(authority: "a")
        let digits = String(repeating: "0123456789abcdef", count: 63).prefix(DeviceToken.maximumDigits)
        let id = APNSID.random()
        let push = samplePush()
        let request = RequestEncoder.request(
            push,
            block: blocks.block(for: push),
            to: try DeviceToken(String(digits)),
            id: id,
            credential: nil
        )
        #expect(request.valueLengths[0] == UInt16("/3/device/".count + DeviceToken.maximumDigits))
        #expect(String(decoding: request.values, as: UTF8.self) == "/3/device/\(digits)\(id)")
    }
}
