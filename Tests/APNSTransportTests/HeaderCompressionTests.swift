import NIOCore
import Testing

@testable import APNSTransport

/// The HPACK encoding of requests, decoded from the bytes (RFC 7541, section 6).
struct HeaderCompressionTests {
    private func blocks(_ script: FrameScript) -> [[FieldRepresentation]] {
        script.write().filter { $0.kind == .headers }.map { FieldRepresentation.decode($0.payload) }
    }

    @Test func repeatedFieldsAreIndexedAndVariableOnesAreNot() throws {
        let script = try FrameScript()
        for tag in 1...3 {
            try script.submit(UInt64(tag), path: "/3/device/0\(tag)", id: "eabeae54-14a8-11e5-b60b-1697f925ec7\(tag)")
        }
        let blocks = self.blocks(script)
        try #require(blocks.count == 3)
        // Static table: 4 :path /, 3 :method POST, 7 :scheme https, 1 :authority. The dynamic one starts at 62.
        #expect(
            blocks[0] == [
                .init(form: .literalWithout, index: 4), .init(form: .indexed, index: 3),
                .init(form: .indexed, index: 7), .init(form: .literalIndexed, index: 1),
                .init(form: .literalIndexed, index: 0), .init(form: .literalIndexed, index: 0),
            ]
        )
        for block in blocks.dropFirst() {
            // 62 is the newest entry, the name of apns-id; 63 is the topic, 64 the authority.
            #expect(
                block == [
                    .init(form: .literalWithout, index: 4), .init(form: .indexed, index: 3),
                    .init(form: .indexed, index: 7), .init(form: .indexed, index: 64),
                    .init(form: .indexed, index: 63), .init(form: .literalNever, index: 62),
                ]
            )
        }
    }

    @Test func anEmptyVariableFieldIsAbsent() throws {
        let script = try FrameScript()
        try script.submit(1)
        #expect(self.blocks(script).map(\.count) == [5])
    }

    /// nghttp2 never indexes `authorization`, whatever the request sets: the token goes over the wire each time.
    @Test(arguments: [HeaderBlock.Indexing.indexed, .never]) func aCredentialIsNeverIndexed(
        _ indexing: HeaderBlock.Indexing
    ) throws {
        let script = try FrameScript()
        for tag in 1...2 {
            var request = HTTP2Request.test()
            request.credential = HeaderBlock([.init("authorization", "bearer token", indexing)])
            _ = try script.client.submit(
                request,
                tag: StreamTag(UInt64(tag)),
                deadline: .distantFuture,
                now: script.now
            )
        }
        // 23 is `authorization` in the static table.
        #expect(self.blocks(script).map(\.last) == Array(repeating: .init(form: .literalNever, index: 23), count: 2))
    }

    @Test func aRequestWithoutAPathIsRefused() throws {
        let script = try FrameScript()
        let request = HTTP2Request(
            shared: HTTP2Request.testFields,
            credential: nil,
            values: [],
            valueLengths: .zero,
            body: []
        )
        let submission = try script.client.submit(request, tag: 1, deadline: .distantFuture, now: script.now)
        #expect(submission == .refused(.faulty))
        #expect(script.client.openCount == 0 && script.client.streams.count == 0)
    }
}
