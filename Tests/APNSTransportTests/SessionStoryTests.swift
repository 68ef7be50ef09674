import NIOCore
import Testing

@testable import APNSTransport

/// Scripted frames from the peer, and the resulting ending of each stream.
struct SessionStoryTests {
    private let long = String(repeating: "x", count: 100_000)

    // MARK: Responses

    @Test(arguments: [true, false]) func aResponseEndsOnHeadersOrOnEmptyData(_ onHeaders: Bool) throws {
        let script = try FrameScript()
        #expect(try script.submit(1) == .accepted)
        #expect(script.write().map(\.kind) == [.headers, .data])
        if onHeaders {
            try script.server(.headers(1, status: 200, [("apns-id", "A")], end: true))
        } else {
            try script.server(.headers(1, status: 200, [("apns-id", "A")]))
            #expect(script.take().isEmpty)
            try script.server(.data(1, "", end: true))
        }
        let result = try #require(script.takeResults().first)
        #expect(result.ending == .response && result.status == 200 && result.cause == .responded)
        #expect(result.fields.first("apns-id") == "A")
        #expect(script.client.openCount == 0 && script.client.streams.count == 0)
        #expect(script.write().isEmpty)
    }

    @Test func aBodyIsKeptUpToItsLimit() throws {
        let script = try FrameScript()
        try script.submit(1)
        script.write()
        try script.server(.headers(1, status: 400))
        for _ in 0..<20 { try script.server(.data(1, String(repeating: "y", count: 1000), end: false)) }
        try script.server(.data(1, "z", end: true))
        let result = try #require(script.takeResults().first)
        #expect(result.body == [UInt8](repeating: UInt8(ascii: "y"), count: StreamTable.bodyLimit))
    }

    @Test func informationalHeadersAreNotAResponse() throws {
        let script = try FrameScript()
        try script.submit(1)
        try script.submit(2)
        script.write()
        try script.server(.headers(1, status: 103, [("link", "x")]), .headers(3, status: 100), .headers(1, status: 100))
        try script.server(.headers(1, status: 429, [("apns-id", "A")], end: true))
        let result = try #require(script.takeResults().first)
        #expect(result.status == 429)
        #expect(result.fields.all.map(\.name) == ["apns-id"])
        script.loseConnection()
        #expect(script.take() == [Ended(2, .unknown, .connectionLost)])
    }

    @Test func trailersDoNotChangeTheResponse() throws {
        let script = try FrameScript()
        try script.submit(1)
        script.write()
        try script.server(
            .headers(1, status: 200, [("a", "1")]),
            .data(1, "body", end: false),
            .headers(1, [("a", "2"), ("b", "3")], end: true)
        )
        let result = try #require(script.takeResults().first)
        #expect(result.status == 200)
        #expect(result.fields.all.map(\.value) == ["1"])
        #expect(String(decoding: result.body, as: UTF8.self) == "body")
    }

    @Test func aLongHeaderBlockIsKeptUpToItsLimit() throws {
        let script = try FrameScript()
        try script.submit(1)
        script.write()
        let value = String(repeating: "v", count: 5000)
        let block = Frame.block([(":status", "200")] + (0..<8).map { ("h\($0)", value) })
        try script.server(
            Frame(.headers, flags: Frame.endStream, stream: 1, Array(block[..<16000])),
            Frame(.continuation, stream: 1, Array(block[16000..<32000])),
            Frame(.continuation, flags: Frame.endHeaders, stream: 1, Array(block[32000...]))
        )
        let result = try #require(script.takeResults().first)
        #expect(result.ending == .response && result.status == 200)
        #expect(result.fields.all.count == 3)
        #expect(result.fields.byteCount <= StreamTable.fieldLimit)
    }

    @Test func incompleteHeadersAreNotAResponse() throws {
        let script = try FrameScript()
        try script.submit(1)
        script.write()
        try script.server(.headers(1, status: 200, endHeaders: false))
        script.loseConnection()
        #expect(script.take() == [Ended(1, .unknown, .connectionLost)])
    }

    @Test func anEarlyResponseFreesTheStream() throws {
        let script = try FrameScript(limit: 1)
        try script.submit(1, body: self.long)
        let frames = script.write()
        let sent = frames.filter { $0.kind == .data }.map(\.payload.count).reduce(0, +)
        #expect(sent == 65535)
        #expect(!frames.contains { $0.endsStream })
        try script.server(.headers(1, status: 413), .data(1, "too large", end: true))
        #expect(script.take() == [Ended(1, .response, .responded)])
        #expect(script.client.hasCapacity)
        #expect(try script.submit(2) == .accepted)
        #expect(script.write() == [.reset(1, .noError)])
        // The first body has used up the connection's send window.
        try script.server(Frame(.windowUpdate, bigEndian(100)))
        #expect(script.write().map(\.kind) == [.headers, .data])
        #expect(script.client.streams.count == 1)
    }

    @Test func anEarlyResponseWithAResetIsNotResetAgain() throws {
        let script = try FrameScript()
        try script.submit(1, body: self.long)
        script.write()
        try script.server(.headers(1, status: 200, end: true), .reset(1, .noError))
        #expect(script.take() == [Ended(1, .response, .responded)])
        #expect(script.write().isEmpty)
        #expect(script.client.streams.count == 0)
    }

    @Test func finalHeadersCountAsAResponseWhateverFollows() throws {
        for ending in 0..<4 {
            let script = try FrameScript()
            try script.submit(1, deadline: .uptimeNanoseconds(5))
            script.write()
            try script.server(.headers(1, status: 200), .data(1, "half", end: false))
            switch ending {
            case 0: try script.server(.reset(1, .internalError))
            case 1: script.loseConnection()
            case 2: script.expire(at: .uptimeNanoseconds(6))
            default: script.cancel(1)
            }
            let results = script.takeResults()
            #expect(results.map(\.ending) == [.response])
            #expect(results.first?.status == 200)
            #expect(results.first.map { String(decoding: $0.body, as: UTF8.self) } == "half")
        }
    }

    @Test func aBodyShorterThanItsLengthKeepsTheStatus() throws {
        let script = try FrameScript()
        try script.submit(1)
        script.write()
        try script.server(.headers(1, status: 200, [("content-length", "10")]), .data(1, "abc", end: true))
        script.write()
        #expect(script.take() == [Ended(1, .response, .responded)])
        #expect(script.client.streams.count == 0)
    }

    // MARK: Resets

    @Test("A request whose deadline has passed is not written", arguments: [false, true])
    func lateRequests(isBatch: Bool) throws {
        let script = try FrameScript()
        if isBatch {
            var batch = RequestBatch(shared: HTTP2Request.testFields, credential: nil, body: [], isBulk: true)
            for deadline in [script.now, script.now + .seconds(1)] {
                let request = HTTP2Request.test(path: "/3/device/00", id: "", body: "")
                batch.values += request.values
                batch.entries.append(.init(valueLengths: request.valueLengths, body: [], deadline: deadline))
            }
            _ = script.client.submit(batch, firstTag: 1, now: script.now)
        } else {
            #expect(try script.submit(1, deadline: script.now) == .refused(.deadline))
            #expect(try script.submit(2, deadline: script.now + .seconds(1)) == .accepted)
        }
        #expect(script.write().filter { $0.kind == .headers }.count == 1)
        #expect(script.take() == (isBatch ? [Ended(1, .notSent, .deadline)] : []))
    }

    @Test func onlyRefusedStreamsCountAsNotProcessed() throws {
        let script = try FrameScript()
        for tag in 1...4 { try script.submit(UInt64(tag)) }
        script.write()
        try script.server(.reset(1, .refusedStream), .reset(3, .streamClosed), .reset(5, .noError))
        try script.server(.headers(7, status: 103), .reset(7, .refusedStream))
        #expect(
            script.take() == [
                Ended(1, .notProcessed, .reset(.refusedStream)), Ended(2, .unknown, .reset(.streamClosed)),
                Ended(3, .unknown, .reset(.noError)), Ended(4, .notProcessed, .reset(.refusedStream)),
            ]
        )
        #expect(script.client.openCount == 0 && script.client.streams.count == 0)
    }

    @Test func aResetAfterACompleteResponseIsIgnored() throws {
        let script = try FrameScript()
        try script.submit(1)
        script.write()
        try script.server(.headers(1, status: 200, end: true))
        try script.server(.reset(1, .cancel))
        #expect(script.take() == [Ended(1, .response, .responded)])
    }

    // MARK: GOAWAY

    @Test func aGoAwaySeparatesProcessedFromUnprocessedStreams() throws {
        let script = try FrameScript()
        for tag in 1...3 { try script.submit(UInt64(tag)) }
        script.write()
        for tag in 4...5 { try script.submit(UInt64(tag)) }
        try script.server(.goAway(3, .noError, debug: #"{"reason":"Shutdown"}"#))
        #expect(
            Set(script.take()) == [
                Ended(3, .notProcessed, .goAway), Ended(4, .notSent, .goAway), Ended(5, .notSent, .goAway),
            ]
        )
        #expect(try script.submit(6) == .refused(.noCapacity))
        #expect(!script.write().contains { $0.kind == .headers })
        try script.server(.headers(1, status: 200, end: true), .reset(3, .cancel))
        #expect(script.take() == [Ended(1, .response, .responded), Ended(2, .unknown, .reset(.cancel))])
        #expect(script.client.streams.count == 0)
        #expect(script.client.isFinished)
    }

    @Test func aSecondGoAwayMayOnlyLowerTheStreamID() throws {
        let script = try FrameScript()
        for tag in 1...3 { try script.submit(UInt64(tag)) }
        script.write()
        try script.server(.goAway(5, .noError, debug: "first"))
        #expect(script.take().isEmpty)
        try script.server(.goAway(1))
        #expect(Set(script.take()) == [Ended(2, .notProcessed, .goAway), Ended(3, .notProcessed, .goAway)])
        try script.server(.goAway(5))
        script.write()
        #expect(script.client.violation?.code == .protocolViolation)
    }

    @Test func aGracefulGoAwayReturnsUnwrittenRequests() throws {
        let script = try FrameScript()
        try script.submit(1)
        script.write()
        try script.submit(2)
        try script.server(.goAway(.max))
        #expect(script.take() == [Ended(2, .notSent, .goAway)])
        #expect(!script.client.hasCapacity)
        #expect(try script.submit(3) == .refused(.noCapacity))
        #expect(script.write().isEmpty)
        try script.server(.goAway(1), .headers(1, status: 200, end: true))
        #expect(script.take() == [Ended(1, .response, .responded)])
        #expect(script.client.streams.count == 0)
    }

    @Test func aGracefulGoAwayReturnsRequestsHeldAtTheLimit() throws {
        let script = try FrameScript(limit: 2)
        try script.submit(1)
        script.write()
        try script.submit(2)
        try script.server(.settings(maxConcurrentStreams: 1), .goAway(.max))
        #expect(script.take() == [Ended(2, .notSent, .goAway)])
        script.loseConnection()
        #expect(script.take() == [Ended(1, .unknown, .connectionLost)])
    }

    // MARK: SETTINGS

    @Test(arguments: [UInt32(0), 1, 2]) func aLowerLimitReturnsUnwrittenRequests(_ limit: UInt32) throws {
        let script = try FrameScript(limit: 10)
        try script.submit(1)
        try script.submit(2)
        script.write()
        for tag in 3...6 { try script.submit(UInt64(tag)) }
        try script.server(.settings(maxConcurrentStreams: limit))
        #expect(Set(script.take()) == Set((3...6).map { Ended($0, .notSent, .noCapacity) }))
        #expect(script.client.unwrittenCount == 0 && script.client.openCount == 2)
        #expect(!script.write().contains { $0.kind == .headers || $0.kind == .reset })
        try script.server(.headers(1, status: 200, end: true), .headers(3, status: 200, end: true))
        #expect(script.take().count == 2)
        #expect(script.client.hasCapacity == (limit > 0))
        try script.server(.settings(maxConcurrentStreams: 1000))
        #expect(try script.submit(7) == .accepted)
        // The ids of the returned requests are skipped: none of them is written late.
        #expect(script.write().filter { $0.kind == .headers }.map(\.streamID) == [13])
        #expect(script.client.streams.count == 1)
    }

    @Test func nothingIsSubmittedBeforeSettingsOrAtTheLimit() throws {
        let script = try FrameScript(limit: nil)
        #expect(try script.submit(1) == .refused(.noCapacity))
        script.write()
        try script.server(.settings(maxConcurrentStreams: 1))
        #expect(script.client.events == [.settings(maxConcurrentStreams: 1)])
        #expect(try script.submit(2) == .accepted)
        #expect(try script.submit(3) == .refused(.noCapacity))
        #expect(script.write().filter { $0.kind == .headers }.count == 1)
    }

    @Test func aPeerWithoutALimitDefaultsTo100Streams() throws {
        let script = try FrameScript(limit: nil)
        try script.server(.settings())
        #expect(script.client.events == [.settings(maxConcurrentStreams: 100)])
        let huge = try FrameScript(limit: .max - 1)
        #expect(huge.client.peerMaxConcurrentStreams == Int(UInt32.max - 1))
    }

    // MARK: Cancellations, deadlines and lost connections

    @Test func cancelledOrExpiredRequestsAreUnknownOnceWritten() throws {
        let script = try FrameScript()
        let soon = NIODeadline.uptimeNanoseconds(100)
        try script.submit(1)
        try script.submit(2, deadline: soon)
        script.write()
        try script.submit(3)
        try script.submit(4, deadline: soon)
        try script.submit(5, deadline: soon + .nanoseconds(1))
        script.cancel(1)
        script.cancel(3)
        script.cancel(77)
        #expect(script.take() == [Ended(1, .unknown, .cancelled), Ended(3, .notSent, .cancelled)])
        #expect(script.client.expire(now: .uptimeNanoseconds(99)) == soon)
        script.expire(at: soon)
        #expect(Set(script.take()) == [Ended(2, .unknown, .deadline), Ended(4, .notSent, .deadline)])
        let frames = script.write()
        #expect(frames.filter { $0.kind == .reset } == [.reset(1, .cancel), .reset(3, .cancel)])
        #expect(frames.filter { $0.kind == .headers }.map(\.streamID) == [9])
        script.cancel(1)
        script.expire(at: .distantFuture)
        #expect(script.take() == [Ended(5, .unknown, .deadline)])
        script.write()
        #expect(script.client.streams.count == 0 && script.client.openCount == 0 && script.client.unwrittenCount == 0)
    }

    @Test func aCancelledStreamIsFreedAndItsResetIsWrittenFirst() throws {
        let script = try FrameScript(limit: 1)
        try script.submit(1)
        script.write()
        script.cancel(1)
        #expect(try script.submit(2) == .accepted)
        #expect(script.write().map(\.kind) == [.reset, .headers, .data])
    }

    @Test func aLostConnectionKeepsTheCertaintyOfEachStream() throws {
        let script = try FrameScript()
        try script.submit(1)
        try script.submit(2)
        script.write()
        try script.submit(3)
        try script.server(.headers(1, status: 503))
        script.loseConnection()
        script.loseConnection()
        #expect(
            script.take() == [
                Ended(1, .response, .responded), Ended(2, .unknown, .connectionLost),
                Ended(3, .notSent, .connectionLost),
            ]
        )
        #expect(script.client.openCount == 0 && script.client.unwrittenCount == 0)
    }

    @Test func anExhaustedSessionAcceptsNoMoreStreams() throws {
        let script = try FrameScript()
        #expect(!script.client.isNearlyExhausted)
        try script.client.setNextStreamID(.max)
        #expect(script.client.isNearlyExhausted)
        #expect(try script.submit(1) == .accepted)
        #expect(try script.submit(2) == .refused(.noCapacity))
        #expect(script.write().filter { $0.kind == .headers }.map(\.streamID) == [.max])
        try script.server(.headers(.max, status: 200, end: true))
        #expect(script.take() == [Ended(1, .response, .responded)])
        #expect(script.client.isNearlyExhausted)
    }

    @Test func aCancelAfterALongHeaderBlockKeepsTheCounts() throws {
        let script = try FrameScript()
        try script.submit(1, path: "/" + String(repeating: "@", count: 40_000))
        // CONTINUATION frames belong to their HEADERS, so nothing comes between them (RFC 9113, section 6.10).
        #expect(script.write(frames: 1).map(\.kind) == [.headers, .continuation, .continuation])
        script.cancel(1)
        script.write()
        #expect(script.take().count == 1)
        #expect(script.client.unwrittenCount == 0 && script.client.openCount == 0 && script.client.streams.count == 0)
        try script.submit(2)
        #expect(script.client.unwrittenCount == 1)
        try script.server(.settings(maxConcurrentStreams: 0))
        #expect(script.take() == [Ended(2, .notSent, .noCapacity)])
    }
}
