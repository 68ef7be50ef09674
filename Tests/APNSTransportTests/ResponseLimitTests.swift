import Testing

@testable import APNSTransport

/// Limits on the memory for a peer's header blocks and bodies.
struct ResponseLimitTests {
    /// A field with a value of 4,000 bytes that goes into the dynamic table, and references to it of one byte each
    /// (RFC 7541, sections 6.1 and 6.2.1).
    private func bomb(references: Int) -> [UInt8] {
        let value = [UInt8](repeating: UInt8(ascii: "v"), count: 4000)
        // 4000 as an integer with a prefix of 7 bits: 127, then 3873 in groups of 7 bits.
        let literal: [UInt8] = [0x40, 1, UInt8(ascii: "b"), 127, 0xA1, 0x1E] + value
        return Frame.block([(":status", "200")]) + literal + [UInt8](repeating: 0xBE, count: references)
    }

    @Test("A header block of more than 64 KiB after decompression ends the connection")
    func headerBomb() throws {
        let script = try FrameScript()
        try script.submit(1)
        script.write()
        let frame = Frame(.headers, flags: Frame.endHeaders, stream: 1, self.bomb(references: 10_000))
        let error = #expect(throws: WireError.self) { try script.server(frame) }
        #expect(error?.code == .protocolViolation)
        script.loseConnection()
        #expect(script.take() == [Ended(1, .unknown, .connectionLost)])
    }

    @Test("Oversized trailers end the connection, and the response still counts")
    func trailerBomb() throws {
        let script = try FrameScript()
        try script.submit(1)
        script.write()
        try script.server(.headers(1, status: 200), .data(1, "x", end: false))
        let block = Array(self.bomb(references: 10_000).dropFirst(Frame.block([(":status", "200")]).count))
        let frame = Frame(.headers, flags: Frame.endHeaders | Frame.endStream, stream: 1, block)
        #expect(throws: WireError.self) { try script.server(frame) }
        script.loseConnection()
        #expect(script.take() == [Ended(1, .response, .responded)])
    }

    @Test("The limit of 64 KiB applies to each header block, not to their sum")
    func manyBlocks() throws {
        let script = try FrameScript()
        for stream in 0..<20 {
            try script.submit(UInt64(stream))
            script.write()
            let block =
                stream == 0
                ? self.bomb(references: 8)
                : Frame.block([(":status", "200")])
                    + [UInt8](repeating: 0xBE, count: 8)
            try script.server(
                Frame(
                    .headers,
                    flags: Frame.endHeaders | Frame.endStream,
                    stream: Int32(2 * stream + 1),
                    block
                )
            )
        }
        #expect(script.take().count { $0.ending == .response } == 20)
    }

    @Test("The unfinished responses of a connection keep at most 1 MiB together")
    func unfinishedResponses() throws {
        let script = try FrameScript(limit: 500)
        for tag in 0..<500 { try script.submit(UInt64(tag)) }
        script.write()
        let fields = (0..<3).map { ("x-\($0)", String(repeating: "v", count: 300)) }
        let body = String(repeating: "b", count: 4096)
        for stream in 0..<500 {
            let id = Int32(2 * stream + 1)
            try script.server(.headers(id, status: 400, fields), .data(id, body, end: false))
            script.write()
        }
        let table = script.client.streams
        let kept = table.indices.reduce(0) { $0 + table[$1].fields.byteCount + table[$1].body.count }
        #expect(kept <= 1 << 20)
        // Each response keeps its status, whatever was cut.
        script.loseConnection()
        #expect(script.takeResults().count { $0.status == 400 } == 500)
    }

    @Test("Finished and cancelled responses make room for later ones")
    func roomIsGivenBack() throws {
        let script = try FrameScript(limit: 500)
        let body = String(repeating: "b", count: 4000)
        for round in 0..<600 {
            let id = Int32(2 * round + 1)
            try script.submit(UInt64(round))
            script.write()
            try script.server(.headers(id, status: 400, [("x", "y")]), .data(id, body, end: false))
            switch round % 3 {
            case 0: try script.server(.data(id, "", end: true))
            case 1: try script.server(.reset(id, .internalError))
            default: script.cancel(UInt64(round))
            }
            #expect(script.takeResults().first?.body.count == 4000)
        }
    }
}
