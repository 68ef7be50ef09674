import CAPNSNghttp2
import NIOCore
import TestSupport
import Testing

@testable import APNSTransport

/// Header blocks of our encoder, decoded by nghttp2.
struct HeaderEncoderTests {
    private static let names = [":path", "apns-id", "apns-expiration", "apns-collapse-id"]

    private struct Field: Hashable, CustomStringConvertible {
        var name: String
        var value: String
        var isSecret: Bool

        var description: String { "\(self.name): \(self.value)\(self.isSecret ? " (never indexed)" : "")" }
    }

    /// The owner of an nghttp2 decoder.
    private final class Decoder {
        private let pointer: OpaquePointer

        init() throws {
            var pointer: OpaquePointer?
            try #require(nghttp2_hd_inflate_new(&pointer) == 0)
            self.pointer = try #require(pointer)
        }

        deinit { nghttp2_hd_inflate_del(self.pointer) }

        var tableSize: Int { nghttp2_hd_inflate_get_dynamic_table_size(self.pointer) }

        /// The decoder's own limit, as it is announced by SETTINGS.
        func setLimit(_ bytes: Int) { #expect(nghttp2_hd_inflate_change_table_size(self.pointer, bytes) == 0) }

        func decode(_ block: [UInt8]) throws -> [Field] {
            var fields: [Field] = []
            var rest = block[...]
            while true {
                var field = nghttp2_nv()
                var flags: Int32 = 0
                let used = rest.withUnsafeBufferPointer {
                    nghttp2_hd_inflate_hd2(self.pointer, &field, &flags, $0.baseAddress, $0.count, 1)
                }
                try #require(used >= 0, "nghttp2 does not understand the block: \(used)")
                rest = rest.dropFirst(used)
                if flags & Int32(NGHTTP2_HD_INFLATE_EMIT.rawValue) != 0 {
                    fields.append(
                        Field(
                            name: Self.text(field.name, field.namelen),
                            value: Self.text(field.value, field.valuelen),
                            isSecret: Int32(field.flags) & Int32(NGHTTP2_NV_FLAG_NO_INDEX.rawValue) != 0
                        )
                    )
                }
                if flags & Int32(NGHTTP2_HD_INFLATE_FINAL.rawValue) != 0 { break }
                try #require(used > 0 || flags & Int32(NGHTTP2_HD_INFLATE_EMIT.rawValue) != 0)
            }
            #expect(nghttp2_hd_inflate_end_headers(self.pointer) == 0)
            #expect(rest.isEmpty)
            return fields
        }

        private static func text(_ start: UnsafeMutablePointer<UInt8>?, _ count: Int) -> String {
            String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
        }
    }

    /// Encodes as the session does, and checks that the encoder keeps to its limit.
    private func encode(
        _ encoder: inout HeaderEncoder,
        _ values: [String],
        entry: Int32,
        _ blocks: [HeaderBlock]
    ) -> [UInt8] {
        var lengths = SIMD8<UInt16>()
        for (index, value) in values.enumerated() { lengths[index] = UInt16(value.utf8.count) }
        let bytes = Array(values.joined().utf8)
        let limit = blocks.reduce(encoder.namesLimit + bytes.count) { $0 + $1.byteLimit }
        let output = UnsafeMutablePointer<UInt8>.allocate(capacity: limit)
        defer { output.deallocate() }
        let count = bytes.withUnsafeBufferPointer { bytes in
            bytes.baseAddress.map { encoder.encode($0, lengths, entry: entry, { blocks }, to: output) } ?? 0
        }
        #expect(count <= limit)
        return Array(UnsafeBufferPointer(start: output, count: count))
    }

    private func block(_ topic: String) -> HeaderBlock {
        HeaderBlock([
            .init(":method", "POST"), .init(":scheme", "https"), .init(":authority", "api.push.apple.com"),
            .init("apns-topic", topic), .init("apns-push-type", "alert"), .init("apns-channel-id", "dHN0", .never),
        ])
    }

    private func expected(_ values: [String], _ topic: String, _ token: String?) -> [Field] {
        var fields = [
            Field(name: ":path", value: values[0], isSecret: false),
            Field(name: ":method", value: "POST", isSecret: false),
            Field(name: ":scheme", value: "https", isSecret: false),
            Field(name: ":authority", value: "api.push.apple.com", isSecret: false),
            Field(name: "apns-topic", value: topic, isSecret: false),
            Field(name: "apns-push-type", value: "alert", isSecret: false),
            Field(name: "apns-channel-id", value: "dHN0", isSecret: true),
        ]
        if let token { fields.append(Field(name: "authorization", value: token, isSecret: true)) }
        for (name, value) in zip(Self.names, values).dropFirst() where !value.isEmpty {
            fields.append(Field(name: name, value: value, isSecret: true))
        }
        return fields
    }

    /// What was sent when a name or a field was new is not marked as never indexed.
    private func withoutMarks(_ fields: [Field]) -> [Field] {
        fields.map { Field(name: $0.name, value: $0.value, isSecret: false) }
    }

    @Test(arguments: TestScale.seeds(fixed: 40)) func nghttp2DecodesWhatWasEncoded(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var encoder = HeaderEncoder(names: Self.names)
        let decoder = try Decoder()
        // With many topics, entries are evicted all the time.
        let topics = (0..<Int.random(in: 1...90, using: &random)).map {
            "com.example.app-\($0)" + String(repeating: "x", count: $0 % 7 * 20)
        }
        let tokens = ["bearer " + String(repeating: "aB3_", count: 60), "bearer short"]
        var entries: [String: (number: Int32, blocks: [HeaderBlock], topic: String, token: String?)] = [:]
        for number in 0..<300 {
            if Int.random(in: 0..<20, using: &random) == 0 {
                for _ in 0...Int.random(in: 0...2, using: &random) {
                    let limit = [0, 40, 100, 500, 4_096, 4_097, 65_536].randomElement(using: &random) ?? 0
                    decoder.setLimit(limit)
                    encoder.setPeerLimit(limit)
                }
            }
            let topic = topics.randomElement(using: &random) ?? ""
            let token = Bool.random(using: &random) ? tokens.randomElement(using: &random) : nil
            let key = "\(topic) \(token ?? "")"
            if entries[key] == nil {
                let credential = token.map { [HeaderBlock([.init("authorization", $0)])] } ?? []
                entries[key] = (Int32(entries.count), [self.block(topic)] + credential, topic, token)
            }
            let entry = try #require(entries[key])
            let values = [
                "/3/device/" + String(repeating: "0f", count: Int.random(in: 1...100, using: &random)), "id-\(number)",
                Bool.random(using: &random) ? "" : "1700000000",
                Bool.random(using: &random)
                    ? "" : String(repeating: "c", count: Int.random(in: 1...200, using: &random)),
            ]
            let bytes = self.encode(&encoder, values, entry: entry.number, entry.blocks)
            let decoded = try decoder.decode(bytes)
            #expect(self.withoutMarks(decoded) == self.withoutMarks(self.expected(values, entry.topic, entry.token)))
            #expect(decoded.allSatisfy { $0.name != "authorization" || $0.isSecret })
            #expect(decoder.tableSize <= 4_096)
        }
    }

    @Test func theSecondRequestRefersToTheFirst() throws {
        var encoder = HeaderEncoder(names: Self.names)
        let decoder = try Decoder()
        let (token, topic) = ("bearer " + String(repeating: "aB3_", count: 50), "com.example.app")
        let blocks = [self.block(topic), HeaderBlock([.init("authorization", token)])]
        var counts: [Int] = []
        for number in 0..<4 {
            let values = ["/3/device/0\(number)", "id-\(number)", "1700000000", "collapse"]
            let bytes = self.encode(&encoder, values, entry: 0, blocks)
            let decoded = try decoder.decode(bytes)
            let expected = self.expected(values, topic, token)
            if number == 0 {
                #expect(self.withoutMarks(decoded) == self.withoutMarks(expected))
            } else {
                #expect(decoded == expected)
            }
            counts.append(bytes.count)
        }
        #expect(counts[0] > counts[1] + 80)
        #expect(counts[1] == counts[2] && counts[2] == counts[3])
    }

    @Test func aNumberOfAnEntryThatStandsForOtherFieldsIsEncodedAnew() throws {
        var encoder = HeaderEncoder(names: Self.names)
        let decoder = try Decoder()
        for topic in ["one", "one", "two", "two", "one"] {
            let bytes = self.encode(&encoder, ["/3/device/00", "id", "", ""], entry: 7, [self.block(topic)])
            let decoded = try decoder.decode(bytes)
            #expect(decoded.first { $0.name == "apns-topic" }?.value == topic)
            encoder.forget(entry: 7)
        }
    }

    @Test func aLimitThatWentDownAndUpAgainEmptiesThePeersTable() throws {
        var encoder = HeaderEncoder(names: Self.names)
        let decoder = try Decoder()
        let values = ["/3/device/00", "id", "", ""]
        _ = try decoder.decode(self.encode(&encoder, values, entry: 0, [self.block("one")]))
        for limit in [0, 4_096] {
            decoder.setLimit(limit)
            encoder.setPeerLimit(limit)
        }
        let bytes = self.encode(&encoder, values, entry: 0, [self.block("one")])
        let updates = FieldRepresentation.decode(bytes).prefix { $0.form == .tableSize }
        #expect(updates.map(\.index) == [0, 4_096])
        let decoded = try decoder.decode(bytes)
        #expect(decoded.first { $0.name == "apns-topic" }?.value == "one")
    }

    @Test func aFrameThatLowersTheTableAndRaisesItAgainEmptiesIt() throws {
        let script = try FrameScript()
        try script.submit(1)
        script.write()
        try script.server(.settings([(1, 0), (1, 4_096)]))
        try script.submit(2)
        let frame = try #require(script.write().first { $0.kind == .headers })
        let fields = FieldRepresentation.decode(frame.payload)
        #expect(fields.prefix { $0.form == .tableSize }.map(\.index) == [0, 4_096])
        #expect(!fields.contains { $0.form == .indexed && $0.index > 61 })
    }

    @Test func kindsThatAlternateAreEncodedOnce() throws {
        let script = try FrameScript()
        let blocks = (0..<3).map { self.block("com.example.app\($0)") }
        var sizes: [[Int]] = []
        for round in 0..<3 {
            for (number, block) in blocks.enumerated() {
                var request = HTTP2Request.test()
                request.shared = block
                let tag = StreamTag(UInt64(round * blocks.count + number))
                _ = try script.client.submit(request, tag: tag, deadline: .distantFuture, now: script.now)
            }
            sizes.append(script.write().filter { $0.kind == .headers }.map(\.payload.count))
        }
        #expect(sizes[1] == sizes[2])
        #expect(sizes[0].max() ?? 0 > sizes[1].max() ?? 0)
    }

    @Test func aLongBlockIsContinued() throws {
        let script = try FrameScript()
        var request = HTTP2Request.test()
        let long = String(repeating: "~", count: 40_000)
        request.credential = HeaderBlock([.init("x-long", long)])
        _ = try script.client.submit(request, tag: 1, deadline: .distantFuture, now: script.now)
        let frames = script.write().filter { $0.kind == .headers || $0.kind == .continuation }
        #expect(frames.map(\.kind) == [.headers, .continuation, .continuation])
        #expect(frames.map { $0.flags & Frame.endHeaders != 0 } == [false, false, true])
        #expect(frames.allSatisfy { $0.payload.count <= 16_384 && $0.streamID == 1 })
        let decoded = try Decoder().decode(frames.flatMap(\.payload))
        #expect(decoded.last?.value == long)
        // The next request fits into one frame again.
        try script.submit(2)
        let next = script.write().filter { $0.kind == .headers }
        #expect(next.map(\.flags) == [Frame.endHeaders])
    }
}
