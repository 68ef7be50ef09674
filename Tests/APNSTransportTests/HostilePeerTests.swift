import NIOCore
import NIOEmbedded
import Testing

@testable import APNSTransport

/// Peers that endlessly send frames that advance no request. Each session ends after a bounded number of frames, and
/// uses a bounded amount of memory until then.
struct HostilePeerTests {
    /// The most frames that a session may process while its clock stands still: the budget, and the rest of one record.
    static let mostFrames = GlitchBudget.capacity + 16384 / 9

    /// A session with streams 1, 3 and 5 as `Flood` describes them, and their tags.
    private func script() throws -> FrameScript {
        let script = try FrameScript(limit: 1000)
        for tag: UInt64 in [1, 3, 5] { try script.submit(tag) }
        script.write()
        try script.server(.headers(3, status: 200, end: true), .headers(5, status: 400))
        #expect(script.take() == [Ended(3, .response, .responded)])
        return script
    }

    /// Sends the flood in records of up to 16 KiB until the session ends. The server reads everything.
    private func run(_ flood: Flood, _ script: FrameScript) throws -> (frames: Int, error: WireError?) {
        let perRecord = max(1, 16384 / flood.unit.count)
        let record = (0..<perRecord).flatMap { _ in flood.unit }
        var frames = 0
        do {
            try script.server(bytes: flood.first)
            while script.client.violation == nil, frames < 10 * Self.mostFrames {
                // The owner of a session takes its events after each read.
                script.client.events.removeAll()
                frames += perRecord * flood.count
                try script.server(bytes: record)
                script.write()
                #expect(script.client.events.count <= perRecord * flood.count)
            }
        } catch let error as WireError {
            return (frames, error)
        }
        return (frames, script.client.violation)
    }

    @Test(
        "A flood ends the session within its budget, with ENHANCE_YOUR_CALM",
        arguments: Flood.onAConnection + Flood.onStreams + Flood.ofHeaders
    )
    func floods(_ flood: Flood) throws {
        let script = try self.script()
        let (frames, reason) = try self.run(flood, script)
        #expect(frames <= Self.mostFrames)
        let error = try #require(reason)
        if flood.isLegal {
            #expect(error.code == .flooded)
            script.write()
            #expect(script.written.last?.kind == .goAway)
            #expect(script.written.last?.payload.prefix(8).suffix(4) == [0, 0, 0, 0xB])
        }
        #expect(script.client.streams.count == 2 && script.client.keptBytes <= StreamTable.keptLimit)
        script.loseConnection()
        #expect(Set(script.take()) == [Ended(1, .unknown, .connectionLost), Ended(5, .response, .responded)])
        #expect(script.client.openCount == 0)
    }

    @Test(
        "A peer that reads nothing cannot flood either",
        arguments: Flood.onAConnection.prefix(4)
    )
    func floodsWithoutReading(_ flood: Flood) throws {
        let script = try self.script()
        let record = (0..<100).flatMap { _ in flood.unit }
        var frames = 0
        #expect(throws: WireError.self) {
            while frames < 10 * Self.mostFrames {
                frames += 100 * flood.count
                try script.server(bytes: record)
            }
        }
        #expect(frames <= Self.mostFrames)
    }

    @Test(
        "Frames that can change every stream end the session after 600",
        arguments: [
            Flood("SETTINGS", .settings([(3, 1)]), .settings([(3, 1000), (4, 1)])),
            Flood(
                "PRIORITY",
                Frame(.priority, stream: 1, [0x80, 0, 0, 3, 1]),
                Frame(.priority, stream: 1, [0, 0, 0, 0, 1])
            ),
            Flood("GOAWAY", .goAway(5), .goAway(5)),
        ]
    )
    func costlyFrames(_ flood: Flood) throws {
        let script = try self.script()
        var frames = 0
        let error = #expect(throws: WireError.self) {
            while frames < 2 * Self.mostFrames {
                frames += flood.count
                try script.server(bytes: flood.unit)
                script.write()
            }
        }
        #expect(error?.code == .flooded)
        #expect(frames <= 600)
    }

    @Test("A response in six frames, with a PING and 1xx for each, is far from the budget")
    func legalServer() throws {
        let script = try FrameScript(limit: 1000)
        for round in 0..<1000 {
            let id = Int32(2 * round + 1)
            try script.submit(UInt64(round))
            script.write()
            for frame in [
                Frame(.windowUpdate, bigEndian(2)), Frame(.windowUpdate, stream: id, bigEndian(2)),
                .headers(id, status: 103), .headers(id, status: 400), .data(id, #"{"reason":"#, end: false),
                .data(id, #""X"}"#, end: false), .data(id, "", end: true), .ping(),
            ] {
                try script.server(frame)
            }
            script.write()
        }
        #expect(script.take().count { $0.ending == .response } == 1000)
        // SETTINGS, and eight frames in as many records before each response earns them back.
        #expect(script.client.glitches.lowest >= GlitchBudget.capacity - 40)
    }

    @Test("Late responses to requests that were cancelled do not use up the budget")
    func lateResponses() throws {
        let script = try FrameScript(limit: 1000)
        for round in 0..<3000 {
            let id = Int32(2 * round + 1)
            try script.submit(UInt64(round))
            script.write()
            script.cancel(UInt64(round))
            script.write()
            try script.server(.headers(id, status: 400))
            try script.server(.data(id, #"{"reason":"X"}"#, end: true))
        }
        #expect(script.client.glitches.lowest >= GlitchBudget.capacity - 40)
    }

    @Test("A body of many megabytes that is kept does not use up the budget, even in frames of 128 bytes")
    func largeBody() throws {
        let script = try FrameScript(limit: 1000, bodyLimit: 16 << 20)
        try script.submit(1)
        script.write()
        try script.server(.headers(1, status: 200))
        let sizes = Array(repeating: 16_384, count: 300) + Array(repeating: 128, count: 6_000)
        for size in sizes {
            try script.server(.data(1, String(repeating: "x", count: size), end: false))
            script.write()
        }
        try script.server(.data(1, "", end: true))
        let received = script.takeResults().first?.body.count
        let expected = sizes.reduce(0, +)
        #expect(received == expected)
        #expect(script.client.glitches.lowest >= GlitchBudget.capacity - 40)
    }

    // MARK: The server's side

    private func serverSession() throws -> HTTP2ServerSession {
        let session = try HTTP2ServerSession(configuration: HTTP2ServerSession.Configuration())
        try self.send(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Frame.settings().bytes, to: session)
        return session
    }

    private func send(_ bytes: [UInt8], to session: HTTP2ServerSession) throws {
        let error: WireError? = bytes.withUnsafeBytes {
            do throws(WireError) {
                try session.receive($0, now: .uptimeNanoseconds(0))
                return nil
            } catch {
                return error
            }
        }
        if let error { throw error }
        while !(try session.nextFrame()).isEmpty {}
        session.events.removeAll()
        session.closedStreams.removeAll()
    }

    @Test(
        "A client's flood ends its session",
        arguments: Flood.onAConnection + Flood.onStreams + [
            Flood("WINDOW_UPDATE on idle streams", Frame(.windowUpdate, stream: 99, bigEndian(1)), isLegal: false),
            Flood("PRIORITY of an idle stream", Frame(.priority, stream: 99, [0, 0, 0, 0, 1])),
            Flood(
                "CONTINUATION of a byte",
                first: Frame(.headers, stream: 7, [0x83, 0x87, 0x84, 0, 1, UInt8(ascii: "x"), 127, 0xFF, 0xFF, 1]),
                Frame(.continuation, stream: 7, [UInt8(ascii: "y")]),
                isLegal: false
            ),
        ]
    )
    func floodsOfAClient(_ flood: Flood) throws {
        let session = try self.serverSession()
        try self.send(
            Frame.request(1, end: false).bytes + Frame.request(3, end: true).bytes + Frame.request(5, end: false).bytes,
            to: session
        )
        try session.respond(streamID: 3, status: 200, fields: FieldList(), body: [])
        try self.send(flood.first, to: session)
        let perRecord = max(1, 16384 / flood.unit.count)
        let record = (0..<perRecord).flatMap { _ in flood.unit }
        var frames = 0
        do {
            while session.violation == nil, frames < 10 * Self.mostFrames {
                frames += perRecord * flood.count
                try self.send(record, to: session)
            }
        } catch is WireError {}
        // A server keeps up to 64 KiB of a body, which earn 1,024 glitches.
        #expect(frames <= Self.mostFrames + 1024)
        #expect(session.streams.count <= 3)
        if flood.isLegal { #expect(session.violation != nil) }
    }

    @Test("A client may send any number of requests at once")
    func requests() throws {
        let session = try self.serverSession()
        for round in 0..<4_000 {
            let id = Int32(2 * round + 1)
            try self.send(Frame.request(id, end: false).bytes + Frame.data(id, "{}", end: true).bytes, to: session)
            try session.respond(streamID: id, status: 200, fields: FieldList(), body: [])
        }
        #expect(session.requests.count == 4_000)
        #expect(session.glitches.lowest >= GlitchBudget.capacity - 40)
    }

    // MARK: Connections

    @Test("A flood closes the connection: written requests are unknown, requests that were held are not sent")
    func flood() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        var message = ""
        link.delegate.onClosedError = { message = $0.message }
        // The send window has room for 15 of them.
        link.submit(1...20, body: String(repeating: "x", count: 4096))
        try link.exchange()
        try self.floodWithPings(link)
        #expect(link.received.last?.kind == .goAway && link.received.last?.payload[7] == 0xB)
        guard case .finished(let ended) = link.delegate.events.dropFirst().first else {
            Issue.record("no results: \(link.delegate.events)")
            return
        }
        #expect(ended.count { $0.ending == .unknown } == 15 && ended.count { $0.ending == .notSent } == 5)
        #expect(link.delegate.events.last == .closed(.flooded))
        #expect(message.contains("advances no request"))
        link.finish()
    }

    /// Sends PINGs until the connection ends, which it must do in time.
    private func floodWithPings(_ link: MemoryLink) throws {
        var frames = 0
        while link.channel.isActive, frames < 10 * Self.mostFrames {
            try link.sendTogether((0..<900).map { _ in .ping() })
            frames += 900
        }
        #expect(frames <= Self.mostFrames)
    }

    @Test("A server that breaks the protocol, reads nothing and keeps sending is disconnected")
    func violationWithoutReading() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.submit(1...1, within: .seconds(3600))
        try link.exchange()
        link.channel.isWritable = false
        try link.send(Frame(.continuation, flags: 4, stream: 1))
        try self.floodWithPings(link)
        #expect(link.delegate.events.dropFirst().first == .finished([Ended(1, .unknown, .connectionLost)]))
        #expect(link.delegate.events.last == .closed(.flooded))
        link.finish()
    }

    @Test("A record that arrives byte by byte ends the connection if the server sends many of them")
    func packetsOfAByte() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        let frame = Frame(type: 0xFA, flags: 0, streamID: 0, payload: [UInt8](repeating: 0, count: 16000)).bytes
        var reads = 0
        while link.channel.isActive, reads < 10 * Self.mostFrames {
            frame.withUnsafeBytes { _ = link.server.write($0) }
            var record = link.server.takeOutput()
            while link.channel.isActive, let byte = record.readSlice(length: 1) {
                try link.channel.writeInbound(byte)
                reads += 1
            }
        }
        #expect(reads <= GlitchBudget.capacity + 2)
        #expect(link.delegate.events == [.ready, .closed(.flooded)])
        link.finish()
    }

    @Test("A server that sends 100 PINGs and 100 WINDOW_UPDATEs each second stays connected")
    func slowFrames() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        // Twice as many frames as the budget has at once.
        for _ in 0..<100 {
            link.loop.advanceTime(by: .seconds(1))
            try link.sendTogether((0..<100).flatMap { _ in [.ping(), Frame(.windowUpdate, bigEndian(1))] })
        }
        #expect(link.delegate.events == [.ready])
        link.finish()
    }

    @Test("A stream window of 0 for ever ends each push at its deadline, and keeps nothing of it")
    func zeroWindow() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        try link.send(.settings([(4, 0)]))
        for round in 1...20 {
            link.submit(UInt64(round)...UInt64(round), within: .seconds(1))
            try link.exchange()
            try link.send(.ping())
            link.loop.advanceTime(by: .seconds(1))
            try link.exchange()
            #expect(link.delegate.events.last == .finished([Ended(UInt64(round), .unknown, .deadline)]))
        }
        let session = try #require(link.connection.session)
        #expect(session.streams.count == 0 && session.bodies.count == 0 && session.uncopiedBodyBytes == 0)
        link.finish()
    }

    @Test("A response of a byte a second ends at the push's deadline")
    func slowResponse() throws {
        let link = try MemoryLink()
        try link.shakeHands()
        link.submit(1...1, within: .seconds(20))
        try link.exchange()
        let begin = link.loop.now
        Frame.headers(1, status: 200, end: true).bytes.withUnsafeBytes { _ = link.server.write($0) }
        var record = link.server.takeOutput()
        while link.delegate.events.count == 1, let byte = record.readSlice(length: 1) {
            try link.channel.writeInbound(byte)
            link.loop.advanceTime(by: .seconds(1))
        }
        #expect(link.delegate.events == [.ready, .finished([Ended(1, .unknown, .deadline)])])
        #expect(link.loop.now - begin == .seconds(20))
        #expect(record.readableBytes > 0)
        link.finish()
    }
}
