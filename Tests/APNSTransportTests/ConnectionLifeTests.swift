import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import APNSTransport

struct ConnectionLifeTests {
    @Test func requestsOfOneTickLeaveInOneWrite() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        #expect(link.delegate.events == [.ready])
        let before = link.writes
        link.submit(1...100)
        #expect(link.writes == before + 1)
        try link.exchange()
        #expect(link.received.filter { $0.kind == .headers }.count == 100)
        #expect(link.received.filter { $0.kind == .data && $0.endsStream }.count == 100)
        link.finish()
    }

    @Test("Requests that are cancelled in one tick are reset in one write")
    func cancellationsOfOneTick() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.submit(1...500)
        try link.exchange()
        let before = link.writes
        for tag: UInt64 in 1...500 { link.connection.cancel(tag: StreamTag(tag)) }
        #expect(link.writes == before)
        link.connection.flush()
        #expect(link.writes == before + 1)
        try link.exchange()
        #expect(link.received.filter { $0.kind == .reset }.count == 500)
        #expect(link.delegate.tags.count == 500)
        link.finish()
    }

    @Test("A request that waited for a full channel beyond its deadline is not written, even before its timer fires")
    func lateAfterAFullChannel() throws {
        let clock = StalledClock()
        let link = try MemoryLink { $0.clock = clock }
        try link.shakeHands()
        link.channel.isWritable = false
        let deadline = clock.now(on: link.loop) + .seconds(1)
        link.connection.submit([StreamSubmission(request: .test(body: "{}"), tag: 1, deadline: deadline)])
        clock.time.withLock { $0 = deadline }
        link.channel.isWritable = true
        link.channel.pipeline.fireChannelWritabilityChanged()
        try link.exchange()
        #expect(link.received.filter { $0.kind == .headers }.isEmpty)
        #expect(link.delegate.events.last == .finished([Ended(1, .notSent, .deadline)]))
        link.finish()
    }

    @Test func aFullChannelReceivesNoMoreBytes() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        // The windows are wide open: only the channel limits the writes.
        try link.send(
            .settings([(4, 0x7FFF_FFFF)]),
            Frame(.windowUpdate, bigEndian(0x7FFF_0000))
        )
        link.received.removeAll()
        link.counter.onWrite = { [unowned link] in link.channel.isWritable = false }
        let body = String(repeating: "x", count: 1_000_000)
        link.submit(1...8, body: body)
        var bytes = link.counter.bytes
        for round in 1...8 {
            let limit = link.counter.bytes + 300_000
            // While the channel is full, further submissions write nothing.
            link.submit(UInt64(round + 100)...UInt64(round + 100))
            link.loop.run()
            #expect(link.counter.bytes == bytes)
            link.channel.isWritable = true
            link.channel.pipeline.fireChannelWritabilityChanged()
            link.loop.run()
            #expect(link.counter.bytes > bytes && link.counter.bytes < limit)
            bytes = link.counter.bytes
        }
        link.counter.onWrite = {}
        link.channel.isWritable = true
        link.channel.pipeline.fireChannelWritabilityChanged()
        for _ in 0..<60 { link.loop.run() }
        try link.exchange()
        let received = link.received.filter { $0.kind == .data }.map(\.payload.count).reduce(0, +)
        #expect(received == 8_000_016)
        #expect(link.received.filter { $0.endsStream && $0.kind == .data }.count == 16)
        link.finish()
    }

    // MARK: Results and close

    @Test func eachResultIsReportedOnceAndBeforeTheClose() throws {
        let link = try MemoryLink()
        link.submit(1...1)
        #expect(link.delegate.events == [.finished([Ended(1, .notSent, .noCapacity)])])
        try link.shakeHands()
        link.submit(2...4)
        try link.exchange()
        try link.send(.headers(1, status: 200, end: true), .headers(3, status: 500))
        link.connection.close()
        try link.exchange()
        link.submit(5...5)
        #expect(
            link.delegate.events == [
                .finished([Ended(1, .notSent, .noCapacity)]), .ready, .finished([Ended(2, .response, .responded)]),
                .finished([Ended(3, .response, .responded), Ended(4, .unknown, .closedLocally)]),
                .closed(.closedLocally), .finished([Ended(5, .notSent, .noCapacity)]),
            ]
        )
        #expect(link.received.contains { $0.kind == .goAway })
        link.finish()
        #expect(link.delegate.events.count == 6)
    }

    @Test func unwrittenRequestsAreNotSentOnClose() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.channel.isWritable = false
        link.submit(1...3)
        link.channel.isWritable = true  // without an event
        link.connection.close()
        try link.exchange()
        #expect(
            link.delegate.events.dropFirst() == [
                .finished((1...3).map { Ended($0, .notSent, .closedLocally) }), .closed(.closedLocally),
            ]
        )
        #expect(!link.received.contains { $0.kind == .headers })
        link.finish()
    }

    @Test func aGoAwayBeforeTheCloseGivesItsReason() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        try link.send(
            .goAway(0, .noError, debug: #"{"reason":"BadCertificateEnvironment"}"#),
            closeNotify: true
        )
        #expect(
            link.delegate.events == [
                .ready, .goingAway(.clientCertificateRefused), .closed(.clientCertificateRefused),
            ]
        )
        link.finish()
    }

    @Test func aGoAwayWithoutStreamsEndsTheConnection() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        try link.send(.goAway(.max))
        #expect(link.delegate.events == [.ready, .goingAway(.goAway), .closed(.goAway)])
        link.finish()
    }

    @Test func aGoAwayLetsOpenStreamsFinish() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.submit(1...2)
        try link.exchange()
        try link.send(.goAway(.max))
        link.submit(3...3)
        try link.send(.goAway(1, debug: "Shutdown"), .headers(1, status: 200, end: true))
        #expect(link.delegate.tags.sorted() == [1, 2, 3])
        #expect(link.delegate.events.last == .closed(.goAway))
        #expect(link.delegate.events.contains(.finished([Ended(3, .notSent, .noCapacity)])))
        link.finish()
    }

    @Test func aProtocolViolationClosesTheConnection() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.submit(1...1)
        try link.exchange()
        try link.send(Frame(.continuation, flags: 4, stream: 1))
        #expect(
            link.delegate.events.dropFirst() == [
                .finished([Ended(1, .unknown, .connectionLost)]), .closed(.protocolViolation),
            ]
        )
        #expect(link.received.last?.kind == .goAway)
        link.finish()
    }

    @Test func aDrainWaitsForOpenStreams() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.submit(1...1)
        try link.exchange()
        link.connection.drain()
        link.submit(2...2)
        #expect(link.delegate.events.last == .finished([Ended(2, .notSent, .noCapacity)]))
        try link.send(.headers(1, status: 200, end: true))
        #expect(
            link.delegate.events.suffix(2) == [.finished([Ended(1, .response, .responded)]), .closed(.closedLocally)]
        )
        link.finish()
    }

    @Test("An invalid request ends alone, and its neighbours are sent")
    func invalidRequest() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        var broken = HTTP2Request.test()
        broken.valueLengths = .zero
        link.connection.submit(
            [HTTP2Request.test(), broken, HTTP2Request.test()].enumerated().map {
                StreamSubmission(request: $1, tag: StreamTag(UInt64($0)), deadline: .distantFuture)
            }
        )
        #expect(link.delegate.events == [.ready, .finished([Ended(1, .notSent, .faulty)])])
        try link.exchange()
        #expect(link.received.filter { $0.kind == .headers }.count == 2)
        link.finish()
    }

    @Test func aReadFullOfPingsIsNotAFlood() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        let pings = (0..<3800).map { Frame.ping(UInt8($0 & 0xFF)) }
        // 64 KiB in one piece of ciphertext.
        try link.sendTogether(pings)
        #expect(link.received.filter { $0.kind == .ping && $0.flags == Frame.ack }.count == 3800)
        #expect(link.delegate.events == [.ready])
        link.finish()
    }

    // MARK: Reentrant calls

    @Test func theDelegateMaySubmitCancelAndCloseInsideItsCalls() throws {
        let link = try MemoryLink()
        link.delegate.onReady = { [unowned link] in
            link.submit(1...4)
            link.connection.cancel(tag: 2)
        }
        link.delegate.onFinished = { [unowned link] results in
            if results.contains(where: { $0.tag == 1 }) {
                link.submit(5...6)
                link.connection.cancel(tag: 6)
                link.connection.drain()
                link.submit(7...7)
                link.connection.close()
                link.submit(8...8)
            }
            // The connection is closing by now; this request must still get its result.
            if results.contains(where: { $0.tag == 3 }) { link.submit(9...9) }
        }
        link.delegate.onClosed = { [unowned link] in
            link.connection.close()
            link.connection.cancel(tag: 3)
        }
        try link.shakeHands()
        try link.send(.headers(1, status: 200, end: true))
        #expect(link.delegate.tags.sorted() == Array(1...9))
        #expect(link.delegate.events.filter { $0 == .closed(.closedLocally) }.count == 1)
        // Only the request submitted after the close gets its result after it.
        #expect(link.delegate.events.last == .finished([Ended(8, .notSent, .noCapacity)]))
        link.finish()
    }

    @Test func aCloseInsideReadyEndsTheConnection() throws {
        let link = try MemoryLink()
        link.delegate.onReady = { [unowned link] in link.connection.close() }
        try link.shakeHands()
        #expect(link.delegate.events == [.ready, .closed(.closedLocally)])
        link.finish()
    }

    @Test("Responses in the same read as a GOAWAY are reported before it")
    func responsesBeforeGoAway() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.submit(1...2, within: .seconds(30))
        try link.exchange()
        try link.send(
            .headers(1, status: 200, end: true),
            .headers(3, status: 200, end: true),
            .goAway(3)
        )
        let ended = [Ended(1, .response, .responded), Ended(2, .response, .responded)]
        #expect(link.delegate.events == [.ready, .finished(ended), .goingAway(.goAway), .closed(.goAway)])
        link.finish()
    }

    @Test("Streams that a GOAWAY ends are reported after it, so that nothing is resent over this connection")
    func endsAfterGoAway() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.submit(1...3, within: .seconds(30))
        try link.exchange()
        try link.send(.headers(1, status: 200, end: true), .goAway(3), .headers(3, status: 200, end: true))
        #expect(
            link.delegate.events == [
                .ready,
                .finished([Ended(1, .response, .responded)]),
                .goingAway(.goAway),
                .finished([Ended(3, .notProcessed, .goAway), Ended(2, .response, .responded)]),
                .closed(.goAway),
            ]
        )
        link.finish()
    }

    @Test("Only frames that advance an open stream count as responses")
    func framesThatCountAsResponses() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.submit(1...2, within: .seconds(30))
        try link.exchange()
        try link.send(.headers(1, status: 200, end: true))
        link.loop.advanceTime(by: .seconds(1))
        try link.send(.reset(1, .noError), .headers(3, status: 103), .headers(3, status: 103))
        #expect(link.connection.lastResponse == link.loop.now - .seconds(1))
        try link.send(.headers(3, status: 200))
        #expect(link.connection.lastResponse == link.loop.now)
        link.finish()
    }

    // MARK: Time

    @Test func aSilentServerCausesAConnectTimeout() throws {
        let link = try MemoryLink { $0.connectTimeout = .seconds(3) }
        link.loop.advanceTime(by: .milliseconds(2999))
        #expect(link.delegate.events.isEmpty)
        link.loop.advanceTime(by: .milliseconds(1))
        #expect(link.delegate.events == [.closed(.connectTimeout)])
        link.finish()
    }

    @Test func aSilentPeerReceivesAPing() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        // Idle for ten seconds: silence counts from the first open stream.
        link.loop.advanceTime(by: .seconds(10))
        link.submit(1...1, within: .minutes(10))
        try link.exchange()
        link.loop.advanceTime(by: .milliseconds(1999))
        #expect(!link.received.contains { $0.kind == .ping })
        link.loop.advanceTime(by: .milliseconds(1))
        try link.exchange()
        #expect(link.pings == 1)
        try link.acknowledgePing()
        link.loop.advanceTime(by: .seconds(2))
        try link.exchange()
        #expect(link.pings == 2)
        link.loop.advanceTime(by: .seconds(5))
        #expect(
            link.delegate.events == [.ready, .finished([Ended(1, .unknown, .connectionLost)]), .closed(.pingTimeout)]
        )
        link.finish()
    }

    @Test func aDeadlineResetsTheStream() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.submit(1...1, within: .seconds(2))
        link.submit(2...2, within: .seconds(1))
        try link.exchange()
        link.loop.advanceTime(by: .seconds(1))
        #expect(link.delegate.events.last == .finished([Ended(2, .unknown, .deadline)]))
        link.loop.advanceTime(by: .seconds(1))
        try link.exchange()
        #expect(link.delegate.events.last == .finished([Ended(1, .unknown, .deadline)]))
        #expect(link.received.filter { $0.kind == .reset } == [.reset(3, .cancel), .reset(1, .cancel)])
        link.finish()
    }

    @Test("Requests that wait for the send window may use its reserve after half a second without growth")
    func useOfTheReserve() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.connection.submit(
            (1...16 as ClosedRange<UInt64>).map {
                StreamSubmission(
                    request: .test(body: String(repeating: "x", count: 4096)),
                    tag: StreamTag($0),
                    deadline: link.loop.now + .seconds(3),
                    isBulk: true
                )
            }
        )
        try link.exchange()
        func headers() -> Int { link.received.count { $0.kind == .headers } }
        #expect(headers() == 12)
        link.loop.advanceTime(by: .milliseconds(499))
        try link.exchange()
        #expect(headers() == 12)
        // The first half second frees the reserve, the second one any room that is left.
        link.loop.advanceTime(by: .milliseconds(1))
        try link.exchange()
        #expect(headers() == 15)
        link.loop.advanceTime(by: .milliseconds(500))
        try link.exchange()
        #expect(headers() == 16)
        #expect(link.delegate.events == [.ready])
        link.loop.advanceTime(by: .seconds(2))
        #expect(link.delegate.tags.sorted() == Array(1...16))
        link.finish()
    }

    @Test("A connection reports fewer streams while its send window is full, and as many as before when it has grown")
    func streamsOfTheWindow() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.connection.submit(
            (1...100 as ClosedRange<UInt64>).map {
                StreamSubmission(
                    request: .test(body: String(repeating: "x", count: 4096)),
                    tag: StreamTag($0),
                    deadline: link.loop.now + .seconds(30),
                    responseLimit: .milliseconds(2500),
                    isBulk: true
                )
            }
        )
        try link.exchange()
        // The window grows by a body twice, and then by so little that nothing more fits.
        for increment: UInt32 in [4096, 4096, 1, 1, 1] {
            #expect(link.delegate.events == [.ready])
            link.loop.advanceTime(by: .milliseconds(400))
            try link.send(Frame(.windowUpdate, bigEndian(increment)))
            link.loop.advanceTime(by: .milliseconds(100))
        }
        // Those in flight for 2.5 s have reached their time limit. Later ones and waiting ones have not.
        #expect(link.delegate.events.dropFirst().first == .limit(4))
        #expect(link.delegate.tags.sorted() == Array(1...12) + Array(16...100))
        try link.send(Frame(.windowUpdate, bigEndian(1_000_000)))
        link.delegate.events.removeAll()
        link.loop.advanceTime(by: .milliseconds(1900))
        try link.send(Frame(.windowUpdate, bigEndian(1)))
        link.loop.advanceTime(by: .milliseconds(2100))
        let limits = [8, 16, 32, 64, 128, 256, 512, 1000].map { ScriptedDelegate.Event.limit($0) }
        #expect(link.delegate.events.filter { if case .limit = $0 { true } else { false } } == limits)
        #expect(link.delegate.tags.sorted() == [13, 14, 15])
        link.finish()
    }

    @Test func aFinishedConnectionIsFreed() throws {
        weak var connection: Connection?
        weak var delegate: ScriptedDelegate?
        weak var session: MemoryLink?
        do {
            let link = try MemoryLink()
            connection = link.connection
            delegate = link.delegate
            session = link
            try link.shakeHands()
            link.submit(1...3)
            link.finish()
        }
        #expect(connection == nil && delegate == nil && session == nil)
    }
}
