import Testing

@testable import HTTP2Wire

/// Bulk streams leave the last of the connection's send window to others.
@Suite struct SendWindowTests {
    /// 65,535 bytes of window, of which bulk may use 49,152.
    private let body = String(repeating: "x", count: 4096)

    private func dataBytes(_ frames: [Frame]) -> [Int32: Int] {
        frames.filter { $0.kind == .data }.reduce(into: [:]) { $0[$1.streamID, default: 0] += $1.payload.count }
    }

    private func windowUpdate(_ stream: Int32, _ increment: UInt32) -> Frame {
        Frame(.windowUpdate, stream: stream, bigEndian(increment))
    }

    @Test func bulkBodiesStopBeforeTheReserveAndOthersDoNot() throws {
        let script = try FrameScript()
        for tag in 0..<20 { try script.submit(UInt64(tag), body: body, isBulk: true) }
        let first = script.write()
        #expect(first.count { $0.kind == .headers } == 20)
        #expect(dataBytes(first).values.reduce(0, +) == 12 * 4096)
        // An interactive push goes out whole.
        try script.submit(100, body: body)
        let second = dataBytes(script.write())
        #expect(second.count == 1 && second.values.first == 4096)
    }

    @Test func theyGoOnInOrderWhenTheWindowGrows() throws {
        let script = try FrameScript()
        for tag in 0..<20 { try script.submit(UInt64(tag), body: body, isBulk: true) }
        script.write()
        try script.server(windowUpdate(0, 3 * 4096))
        #expect(dataBytes(script.write()).keys.sorted() == [25, 27, 29])
        try script.server(windowUpdate(0, 100_000))
        #expect(dataBytes(script.write()).keys.sorted() == [31, 33, 35, 37, 39])
        #expect(script.client.waitingBodies.isEmpty)
        #expect(script.take().isEmpty)
    }

    @Test func aStreamThatWaitsCanBeAnsweredResetOrLost() throws {
        let script = try FrameScript()
        for tag in 1...15 { try script.submit(UInt64(tag), body: body, isBulk: true) }
        script.write()
        // The last three wait: streams 25, 27 and 29.
        try script.server(.headers(25, status: 429, end: true))
        script.cancel(14)
        script.write()
        try script.server(windowUpdate(0, 100_000))
        #expect(dataBytes(script.write()).keys.sorted() == [29])
        script.loseConnection()
        let ended = script.takeResults()
        #expect(ended.first { $0.tag == 13 }?.status == 429)
        #expect(ended.first { $0.tag == 14 }?.ending == .unknown)
        #expect(ended.count == 15)
    }

    @Test func aBodyThatWouldNeverFitIsSentAllTheSame() throws {
        let script = try FrameScript()
        let large = String(repeating: "x", count: 60_000)
        try script.submit(1, body: large, isBulk: true)
        #expect(dataBytes(script.write()).values.reduce(0, +) == 60_000)
    }

    @Test func aRequestWithoutWaitingCostsNothingElse() throws {
        let script = try FrameScript()
        for tag in 0..<50 { try script.submit(UInt64(tag), isBulk: true) }
        #expect(dataBytes(script.write()).count == 50)
        #expect(script.client.waitingBodies.isEmpty)
    }
}
