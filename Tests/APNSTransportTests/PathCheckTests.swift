import NIOCore
import NIOEmbedded
import Testing

@testable import APNSTransport

extension MemoryLink {
    /// The number of PINGs that the server has received.
    var pings: Int { self.received.count { $0.kind == .ping && $0.flags & Frame.ack == 0 } }

    /// The number of HEADERS frames that the server has received.
    var requests: Int { self.received.count { $0.kind == .headers } }

    func acknowledgePing() throws {
        let ping = try #require(self.received.last { $0.kind == .ping })
        try self.send(Frame(.ping, flags: Frame.ack, ping.payload))
    }
}

/// PINGs on idle connections, and the check before an idle connection is used again.
struct PathCheckTests {
    private static let ready = ScriptedDelegate.Event.ready

    @Test("An idle connection sends a PING each minute and closes if one is not acknowledged")
    func idle() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.loop.advanceTime(by: .milliseconds(59_999))
        try link.exchange()
        #expect(link.pings == 0)
        link.loop.advanceTime(by: .milliseconds(1))
        try link.exchange()
        #expect(link.pings == 1)
        try link.acknowledgePing()
        link.loop.advanceTime(by: .seconds(60))
        try link.exchange()
        #expect(link.pings == 2)
        link.loop.advanceTime(by: .seconds(5))
        #expect(link.delegate.events == [.ready, .closed(.pingTimeout)])
        link.finish()
    }

    @Test("After 15 s without traffic a request waits for the acknowledgement of a PING")
    func checked() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.loop.advanceTime(by: .milliseconds(15_001))
        link.submit(1...2, within: .seconds(30))
        try link.exchange()
        #expect(link.pings == 1 && link.requests == 0)
        #expect(link.connection.openStreams == 2)
        link.loop.advanceTime(by: .milliseconds(1999))
        try link.acknowledgePing()
        try link.exchange()
        #expect(link.requests == 2 && link.pings == 1)
        #expect(link.delegate.events == [.ready])
        link.finish()
    }

    @Test("A connection used within the last 15 s is not checked")
    func trusted() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.loop.advanceTime(by: .seconds(15))
        link.submit(1...1, within: .seconds(30))
        try link.exchange()
        #expect(link.pings == 0 && link.requests == 1)
        link.finish()
    }

    @Test("If the check fails, its requests count as not sent and the connection closes")
    func pathLost() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.loop.advanceTime(by: .seconds(20))
        link.submit(1...2, within: .seconds(30))
        try link.exchange()
        link.loop.advanceTime(by: .seconds(2))
        try link.exchange()
        let ended = [Ended(1, .notSent, .connectionLost), Ended(2, .notSent, .connectionLost)]
        #expect(link.delegate.events == [.ready, .finished(ended), .closed(.pingTimeout)])
        #expect(link.requests == 0)
        link.finish()
    }

    @Test("Bytes other than the acknowledgement do not end the check")
    func otherBytes() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.loop.advanceTime(by: .seconds(20))
        link.submit(1...1, within: .seconds(30))
        try link.exchange()
        try link.send(.settings(maxConcurrentStreams: 500))
        try link.exchange()
        #expect(link.requests == 0)
        link.loop.advanceTime(by: .seconds(2))
        #expect(link.delegate.events.last == .closed(.pingTimeout))
        link.finish()
    }

    @Test("A request that is cancelled or expires during the check is not sent")
    func endsDuringTheCheck() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.loop.advanceTime(by: .seconds(20))
        link.submit(1...1, within: .milliseconds(500))
        link.submit(2...3, within: .seconds(30))
        link.connection.cancel(tag: 2)
        link.connection.flush()
        #expect(link.delegate.events.last == .finished([Ended(2, .notSent, .cancelled)]))
        link.loop.advanceTime(by: .milliseconds(500))
        #expect(link.delegate.events.last == .finished([Ended(1, .notSent, .deadline)]))
        try link.exchange()
        try link.acknowledgePing()
        try link.exchange()
        #expect(link.requests == 1)
        link.finish()
    }

    /// A connection with one open stream on which no byte has arrived for two seconds: the PING is sent.
    private func silentLink() throws -> MemoryLink {
        let link = try MemoryLink()
        try link.shakeHands()
        link.submit(1...1, within: .seconds(30))
        try link.exchange()
        link.loop.advanceTime(by: .seconds(2))
        try link.exchange()
        #expect(link.pings == 1 && link.requests == 1)
        link.submit(2...3, within: .seconds(30))
        try link.exchange()
        #expect(link.requests == 1)
        return link
    }

    @Test("Requests that arrive during a silence wait for the PING, and count as not sent if the path is lost")
    func silence() throws {
        let link = try self.silentLink()
        link.loop.advanceTime(by: .seconds(5))
        let ended = [
            Ended(2, .notSent, .connectionLost), Ended(3, .notSent, .connectionLost),
            Ended(1, .unknown, .connectionLost),
        ]
        let results = link.delegate.events.dropFirst().dropLast()
        #expect(results.elementsEqual([.finished(ended)]), "\(link.delegate.events)")
        #expect(link.delegate.events.last == .closed(.pingTimeout))
        #expect(link.requests == 1)
        link.finish()
    }

    @Test("After a silence, the acknowledgement of the PING sends the requests, but does not count as a response")
    func endOfSilence() throws {
        let link = try self.silentLink()
        let quietSince = link.connection.quietSince
        try link.acknowledgePing()
        try link.exchange()
        #expect(link.requests == 3)
        #expect(link.connection.quietSince == quietSince)
        link.submit(4...4, within: .seconds(30))
        try link.exchange()
        #expect(link.requests == 4)
        link.finish()
    }

    @Test("After a silence, any bytes send the requests")
    func bytesAfterSilence() throws {
        let link = try self.silentLink()
        try link.send(.settings(maxConcurrentStreams: 500))
        try link.exchange()
        #expect(link.requests == 3)
        link.finish()
    }

    @Test("After two seconds or four round trips without a response, a PING is sent")
    func patience() {
        var check = PathCheck(limits: PathCheck.Limits(), now: .uptimeNanoseconds(0))
        func at(_ milliseconds: Int64) -> NIODeadline { .uptimeNanoseconds(UInt64(milliseconds) * 1_000_000) }
        func timer(_ milliseconds: Int64) -> PathCheck.Decision { check.timer(at(milliseconds), openStreams: 1) }
        let begin = check.becomesBusy(at(1000))
        #expect(begin == .nothing)
        #expect(check.deadline(openStreams: 1) == at(3000))
        #expect(timer(2999) == .nothing)
        #expect(timer(3000) == .ping)
        let (isEarlier, endsCheck) = (check.read(at(4000)), check.acknowledged(at(4000)))
        #expect(isEarlier && !endsCheck)
        // A round trip takes a second.
        #expect(check.deadline(openStreams: 1) == at(8000))
        #expect(timer(8000) == .ping)
        #expect(timer(12_999) == .nothing)
        #expect(timer(13_000) == .pathIsLost)
    }

    @Test("A check uses a PING in flight, and waits no longer for it than for its own")
    func pingUnderWay() {
        var check = PathCheck(limits: PathCheck.Limits(), now: .uptimeNanoseconds(0))
        func at(_ seconds: Int64) -> NIODeadline { .uptimeNanoseconds(UInt64(seconds) * 1_000_000_000) }
        let decisions = [check.timer(at(60), openStreams: 0), check.becomesBusy(at(61))]
        #expect(decisions == [.ping, .nothing])
        #expect(check.isChecking)
        #expect(check.deadline(openStreams: 1) == at(63))
        let endsCheck = check.acknowledged(at(62))
        #expect(endsCheck)
        #expect(!check.isChecking)
    }
}
