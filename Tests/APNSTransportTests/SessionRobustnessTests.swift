import NIOCore
import TestSupport
import Testing

@testable import APNSTransport

/// Malformed input from a peer.
struct SessionRobustnessTests {
    static let malformed: [(String, [UInt8])] = [
        ("SETTINGS of 5 bytes", Frame(.settings, [0, 3, 0, 0, 0]).bytes),
        ("SETTINGS on a stream", Frame(.settings, stream: 1, []).bytes),
        ("SETTINGS ACK with a payload", Frame(.settings, flags: Frame.ack, [0, 3, 0, 0, 0, 1]).bytes),
        ("SETTINGS with a window beyond 2^31-1", Frame.settings([(4, .max)]).bytes),
        ("SETTINGS with a frame size below 16384", Frame.settings([(5, 1)]).bytes),
        ("PING of 7 bytes", Frame(.ping, [UInt8](repeating: 0, count: 7)).bytes),
        ("PING on a stream", Frame(.ping, stream: 1, [UInt8](repeating: 0, count: 8)).bytes),
        ("GOAWAY of 7 bytes", Frame(.goAway, [UInt8](repeating: 0, count: 7)).bytes),
        ("GOAWAY on a stream", Frame(.goAway, stream: 1, [UInt8](repeating: 0, count: 8)).bytes),
        ("GOAWAY with an id that is not ours", Frame.goAway(2).bytes),
        ("RST_STREAM of 3 bytes", Frame(.reset, stream: 1, [0, 0, 0]).bytes),
        ("RST_STREAM on stream 0", Frame.reset(0, .cancel).bytes),
        ("RST_STREAM on an idle stream", Frame.reset(99, .cancel).bytes),
        ("DATA on stream 0", Frame.data(0, "x", end: false).bytes),
        ("DATA before HEADERS", Frame.data(1, "no headers", end: true).bytes),
        ("DATA with more padding than bytes", Frame(.data, flags: 8, stream: 1, [9, 0]).bytes),
        ("HEADERS on stream 0", Frame.headers(0, status: 200).bytes),
        ("HEADERS that open a stream of the server's", Frame.headers(2, status: 200).bytes),
        ("HEADERS with an index that does not exist", Frame(.headers, flags: 4, stream: 1, [0xFF, 0x80, 0x01]).bytes),
        ("HEADERS with a cut string", Frame(.headers, flags: 4, stream: 1, [0, 0x7F]).bytes),
        ("CONTINUATION without HEADERS", Frame(.continuation, flags: 4, stream: 1).bytes),
        (
            "another frame inside a header block",
            Frame.headers(1, status: 200, endHeaders: false).bytes + Frame.ping().bytes
        ),
        (
            "PUSH_PROMISE",
            Frame(.pushPromise, flags: 4, stream: 1, [0, 0, 0, 2] + Frame.block([(":method", "GET")])).bytes
        ),
        ("WINDOW_UPDATE of 0 on the connection", Frame(.windowUpdate, [0, 0, 0, 0]).bytes),
        ("WINDOW_UPDATE beyond 2^31-1", Frame(.windowUpdate, [0x7F, 0xFF, 0xFF, 0xFF]).bytes),
        ("WINDOW_UPDATE on an idle stream", Frame(.windowUpdate, stream: 99, bigEndian(1)).bytes),
        ("WINDOW_UPDATE on a stream of the server's", Frame(.windowUpdate, stream: 2, bigEndian(1)).bytes),
        ("DATA on a stream of the server's", Frame.data(2, "x", end: false).bytes),
        ("RST_STREAM on a stream of the server's", Frame.reset(2, .cancel).bytes),
        ("PRIORITY on stream 0", Frame(.priority, [0, 0, 0, 1, 1]).bytes),
        ("PRIORITY of 4 bytes", Frame(.priority, stream: 1, [0, 0, 0, 0]).bytes),
        ("SETTINGS that enable push", Frame.settings([(2, 1)]).bytes),
        (
            "CONTINUATION on another stream",
            Frame.headers(1, status: 200, endHeaders: false).bytes + Frame(.continuation, flags: 4, stream: 3).bytes
        ),
        ("a frame longer than 16384", Frame(.data, stream: 1, [UInt8](repeating: 0, count: 16385)).bytes),
        ("HTTP/1.1", Array("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".utf8)),
    ]

    @Test(arguments: malformed) func aBrokenFrameEndsTheSession(_ name: String, _ bytes: [UInt8]) throws {
        let script = try FrameScript()
        try script.submit(1)
        script.write()
        var error: WireError?
        do {
            try script.server(bytes: bytes)
            let farewell = script.write()
            #expect(farewell.last?.kind == .goAway)
            error = script.client.violation
            #expect(script.client.isFinished)
        } catch let thrown as WireError {
            error = thrown
        }
        #expect(error?.code == .protocolViolation, "\(error?.description ?? "no error")")
        script.loseConnection()
        #expect(script.take() == [Ended(1, .unknown, .connectionLost)])
    }

    @Test(arguments: [
        Frame.headers(1, [("x", "y")], end: true),
        Frame.headers(1, [(":status", "20")], end: true),
        Frame.headers(1, [(":status", "2000")], end: true),
        Frame.headers(1, [(":status", "abc")], end: true),
        Frame.headers(1, [(":status", "200"), (":status", "200")], end: true),
        Frame.headers(1, [(":status", "200"), ("Upper", "x")], end: true),
        Frame.headers(1, [("x", "y"), (":status", "200")], end: true),
        Frame.headers(1, status: 103, end: true),
        Frame.headers(1, status: 101, end: false),
        Frame.headers(1, [(":status", "200"), (":path", "/")], end: true),
        Frame(.windowUpdate, stream: 1, bigEndian(0x7FFF_FFFF)),
    ])
    func aBrokenMessageEndsOnlyItsStream(_ frame: Frame) throws {
        let script = try FrameScript()
        try script.submit(1)
        try script.submit(2)
        script.write()
        try script.server(bytes: frame.bytes)
        #expect(script.write().map(\.kind) == [.reset])
        #expect(script.take().map(\.ending) == [.unknown])
        try script.server(.headers(3, status: 200, end: true))
        #expect(script.take() == [Ended(2, .response, .responded)])
        #expect(script.client.streams.count == 0 && script.client.violation == nil)
    }

    @Test("A status below 100 is no response, and a status above 599 is one", arguments: [0, 99, 600, 999])
    func impossibleStatus(_ status: Int) throws {
        let script = try FrameScript()
        try script.submit(1)
        script.write()
        let digits = String(String(1000 + status).suffix(3))
        try script.server(.headers(1, [(":status", digits)], end: true))
        script.write()
        let result = try #require(script.takeResults().first)
        #expect(result.ending == (status < 100 ? .unknown : .response))
        #expect(result.status == (status < 100 ? 0 : status))
        #expect(script.client.streams.count == 0 && script.client.violation == nil)
    }

    @Test func theFirstFrameMustBeSettings() throws {
        let script = try FrameScript(limit: nil)
        script.write()
        try script.server(.ping())
        script.write()
        #expect(script.client.violation?.code == .protocolViolation)
        #expect(script.client.isFinished)
    }

    @Test func everyPingOfAFullReadIsAcknowledged() throws {
        let script = try FrameScript()
        let piece = (0..<16384 / 17).flatMap { Frame.ping(UInt8($0 & 0xFF)).bytes }
        for _ in 0..<4 {
            try script.server(bytes: piece)
            let acknowledgements = script.write()
            #expect(acknowledgements.count == 16384 / 17)
            #expect(acknowledgements.allSatisfy { $0.kind == .ping && $0.flags == Frame.ack })
        }
    }

    /// 4,000 inputs, 40,000 in the long form: random bytes, frames with random contents, and valid frames with a few
    /// random bytes changed.
    @Test func randomBytesNeitherTrapNorHang() async throws {
        var random = SeededRandom(seed: 2026)
        for round in 0..<TestScale.times(4_000) {
            if round.isMultiple(of: 100) { await TestScale.letOthersRun() }
            let script = try FrameScript(limit: round % 5 == 0 ? nil : 8)
            for tag in 0..<UInt64(round % 4) { try script.submit(tag) }
            if round % 3 != 0 { script.write() }
            var bytes: [UInt8] = []
            switch round % 3 {
            case 0:
                bytes = (0..<Int.random(in: 1...64, using: &random)).map { _ in .random(in: 0...255, using: &random) }
            case 1:
                for _ in 0..<Int.random(in: 1...5, using: &random) {
                    let payload = (0..<Int.random(in: 0...24, using: &random)).map { _ in
                        UInt8.random(in: 0...255, using: &random)
                    }
                    let frame = Frame(
                        type: .random(in: 0...10, using: &random),
                        flags: .random(in: 0...255, using: &random),
                        streamID: .random(in: 0...7, using: &random),
                        payload: payload
                    )
                    bytes += frame.bytes
                }
            default:
                bytes = Self.story.flatMap(\.bytes)
                for _ in 0..<Int.random(in: 1...4, using: &random) {
                    bytes[Int.random(in: 0..<bytes.count, using: &random)] = .random(in: 0...255, using: &random)
                }
            }
            do { try script.server(bytes: bytes) } catch {}
            script.write()
            script.loseConnection()
            #expect(script.takeResults().count == round % 4 - (round % 5 == 0 ? round % 4 : 0), "round \(round)")
            #expect(script.client.openCount == 0 && script.client.unwrittenCount == 0, "round \(round)")
        }
    }

    static let story: [Frame] = [
        .headers(1, status: 103), .headers(3, status: 400, [("apns-id", "A")]), .ping(),
        .data(3, #"{"reason":"BadDeviceToken"}"#, end: true), .settings(maxConcurrentStreams: 2),
        .headers(1, status: 200, end: true), .reset(5, .refusedStream), .goAway(7, debug: "later"),
        .headers(7, status: 200), .data(7, "abc", end: false), .headers(7, [("t", "1")], end: true), .goAway(3),
    ]

    @Test func resultsDoNotDependOnHowBytesAreSplit() throws {
        let bytes = Self.story.flatMap(\.bytes)
        func run(_ cuts: (inout SeededRandom) -> Int, _ random: inout SeededRandom) throws -> [Ended] {
            let script = try FrameScript()
            for tag in 1...6 { try script.submit(UInt64(tag)) }
            script.write()
            var rest = bytes[...]
            while !rest.isEmpty {
                let piece = rest.prefix(cuts(&random))
                try script.server(bytes: Array(piece))
                rest = rest.dropFirst(piece.count)
            }
            script.write()
            script.loseConnection()
            return script.take().sorted { $0.tag < $1.tag }
        }
        var random = SeededRandom(seed: 7)
        let whole = try run({ _ in .max }, &random)
        #expect(whole.count == 6)
        #expect(try run({ _ in 1 }, &random) == whole)
        for _ in 0..<300 {
            #expect(try run({ Int.random(in: 1...20, using: &$0) }, &random) == whole)
        }
    }
}
