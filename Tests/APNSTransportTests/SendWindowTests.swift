import NIOCore
import Testing

@testable import APNSTransport

/// Bulk streams leave the last part of the connection's send window to interactive streams.
struct SendWindowTests {
    /// The window has 65,535 bytes, of which bulk may use 49,152.
    private let body = String(repeating: "x", count: 4096)

    private func dataBytes(_ frames: [Frame]) -> [Int32: Int] {
        frames.filter { $0.kind == .data }.reduce(into: [:]) { $0[$1.streamID, default: 0] += $1.payload.count }
    }

    private func windowUpdate(_ stream: Int32, _ increment: UInt32) -> Frame {
        Frame(.windowUpdate, stream: stream, bigEndian(increment))
    }

    @Test func onlyInteractiveBodiesUseTheReserve() throws {
        let script = try FrameScript()
        for tag in 0..<20 { try script.submit(UInt64(tag), body: body, isBulk: true) }
        let first = script.write()
        // The other requests hold back their HEADERS too: a written request may count as processed.
        #expect(first.count { $0.kind == .headers } == 12)
        #expect(dataBytes(first).values.reduce(0, +) == 12 * 4096)
        // An interactive push goes out whole.
        try script.submit(100, body: body)
        let second = dataBytes(script.write())
        #expect(second.count == 1 && second.values.first == 4096)
    }

    @Test func waitingBodiesContinueInOrderWhenTheWindowGrows() throws {
        let script = try FrameScript()
        for tag in 0..<20 { try script.submit(UInt64(tag), body: body, isBulk: true) }
        script.write()
        try script.server(windowUpdate(0, 3 * 4096))
        #expect(dataBytes(script.write()).keys.sorted() == [25, 27, 29])
        try script.server(windowUpdate(0, 100_000))
        #expect(dataBytes(script.write()).keys.sorted() == [31, 33, 35, 37, 39])
        #expect(script.client.held.isEmpty)
        #expect(script.take().isEmpty)
    }

    @Test("A request that waits for the window is not sent after its deadline, a cancellation or a GOAWAY")
    func endsWhileWaiting() throws {
        let script = try FrameScript()
        for tag in 1...18 {
            let deadline: NIODeadline = tag == 15 ? .uptimeNanoseconds(5) : .uptimeNanoseconds(50)
            try script.submit(UInt64(tag), body: body, deadline: deadline, isBulk: true)
        }
        script.write()
        #expect(script.client.openCount == 18 && script.client.held.count == 6)
        script.cancel(14)
        #expect(script.take() == [Ended(14, .notSent, .cancelled)])
        #expect(script.client.expire(now: .uptimeNanoseconds(6)) == .uptimeNanoseconds(50))
        script.write()
        #expect(script.take() == [Ended(15, .notSent, .deadline)])
        try script.server(windowUpdate(0, 4096))
        #expect(dataBytes(script.write()).keys.sorted() == [25])
        try script.server(.goAway(1))
        let ended = script.takeResults()
        #expect(ended.count { $0.ending == .notProcessed } == 12)
        #expect(ended.filter { $0.ending == .notSent }.map(\.tag) == [16, 17, 18])
        script.loseConnection()
        #expect(script.take() == [Ended(1, .unknown, .connectionLost)])
        #expect(script.client.openCount == 0)
    }

    @Test("The time limit for the response begins when a waiting request is sent")
    func responseLimit() throws {
        let script = try FrameScript()
        for tag in 1...14 {
            try script.submit(
                UInt64(tag),
                body: body,
                deadline: .uptimeNanoseconds(tag == 14 ? 25 : 100),
                responseLimit: .nanoseconds(10),
                isBulk: true
            )
        }
        script.write()
        // Requests in flight expire, the waiting ones do not.
        script.now = .uptimeNanoseconds(10)
        #expect(script.client.expire(now: script.now) == .uptimeNanoseconds(25))
        script.write()
        #expect(script.takeResults().map(\.tag.rawValue).sorted() == Array(1...12))
        script.now = .uptimeNanoseconds(20)
        try script.server(windowUpdate(0, 2 * 4096))
        #expect(dataBytes(script.write()).count == 2)
        // The push's own deadline comes before the end of the time limit.
        #expect(script.client.expire(now: .uptimeNanoseconds(24)) == .uptimeNanoseconds(25))
        #expect(script.client.expire(now: .uptimeNanoseconds(25)) == .uptimeNanoseconds(30))
        #expect(script.client.expire(now: .uptimeNanoseconds(29)) == .uptimeNanoseconds(30))
        #expect(script.client.expire(now: .uptimeNanoseconds(30)) == nil)
        script.write()
        #expect(script.take() == [Ended(14, .unknown, .deadline), Ended(13, .unknown, .deadline)])
    }

    @Test("Requests that wait too long are returned, the last ones first; those that may wait are sent in order")
    func returned() throws {
        let script = try FrameScript()
        for tag in 1...30 { try script.submit(UInt64(tag), body: body, isBulk: true) }
        // The window has room for three of these.
        for tag in 101...105 { try script.submit(UInt64(tag), body: body) }
        script.write()
        for _ in 0..<4 { #expect(script.checkWindowLimit().isEmpty) }
        #expect(script.client.streamLimit == 100)
        // Of the 20 waiting requests, half as many as are in flight may go on waiting: two interactive, five bulk.
        #expect(script.checkWindowLimit() == Array(18...30))
        #expect(script.take().allSatisfy { $0.ending == .notSent && $0.cause == .noCapacity })
        #expect(script.client.streamLimit == 30 && script.client.openCount == 22)
        try script.server(windowUpdate(0, 100_000))
        #expect(dataBytes(script.write()).count == 7)
        // The server may change its own limit meanwhile.
        try script.server(.settings(maxConcurrentStreams: 25))
        #expect(script.client.streamLimit == 25)
        for _ in 0..<2 { script.checkWindowLimit() }
        #expect(!script.client.hasWindowLimit && script.client.streamLimit == 25)
    }

    @Test("A waiting request counts as not sent when the connection is lost")
    func lostWhileWaiting() throws {
        let script = try FrameScript()
        for tag in 1...14 { try script.submit(UInt64(tag), body: body, isBulk: true) }
        script.write()
        script.loseConnection()
        let ended = script.take()
        #expect(ended.count == 14)
        #expect(ended.filter { $0.ending == .notSent }.map(\.tag) == [13, 14])
    }

    @Test("Interactive requests that do not fit wait too, and are sent before bulk requests")
    func interactiveWaits() throws {
        let script = try FrameScript()
        for tag in 1...15 { try script.submit(UInt64(tag), body: body, isBulk: true) }
        for tag in 101...105 { try script.submit(UInt64(tag), body: body) }
        // 65,535 bytes have room for 15 bodies: 12 of bulk and 3 others.
        #expect(dataBytes(script.write()).count == 15)
        try script.server(windowUpdate(0, 2 * 4096))
        #expect(dataBytes(script.write()).count == 2)
        #expect(script.client.held.count == 3)
        script.loseConnection()
        #expect(script.take().filter { $0.ending == .notSent }.map(\.tag) == [13, 14, 15])
    }

    @Test("A batch waits for the window like single requests, and keeps its order")
    func batches() throws {
        let script = try FrameScript()
        let request = HTTP2Request.test(body: body)
        var batch = RequestBatch(shared: request.shared, credential: nil, body: request.body, isBulk: true)
        for _ in 0..<14 {
            batch.values += request.values
            batch.entries.append(.init(valueLengths: request.valueLengths, body: [], deadline: .distantFuture))
        }
        #expect(script.client.submit(batch, firstTag: 1, now: script.now).broken == nil)
        #expect(dataBytes(script.write()).count == 12)
        try script.server(windowUpdate(0, 4096))
        #expect(dataBytes(script.write()).count == 1)
        script.loseConnection()
        #expect(script.take().filter { $0.ending == .notSent }.map(\.tag) == [14])
    }

    @Test("Requests with a response before their body is complete leave no state behind")
    func earlyResponses() throws {
        let script = try FrameScript()
        let large = String(repeating: "x", count: 100_000)
        for round in 0..<300 {
            let id = Int32(2 * round + 1)
            try script.submit(UInt64(round), body: large, isBulk: round % 2 == 0)
            let sent = dataBytes(script.write()).values.reduce(0, +)
            #expect(sent == 65_535)
            try script.server(.headers(id, status: 413, end: true))
            #expect(script.take() == [Ended(UInt64(round), .response, .responded)])
            #expect(script.write().map(\.kind) == [.reset])
            try script.server(windowUpdate(0, UInt32(sent)))
        }
        #expect(script.client.held.isEmpty && script.client.uncopiedBodyBytes == 0)
        #expect(script.client.bodies.count == 0 && script.client.streams.count == 0)
    }

    @Test func aBodyLargerThanTheBulkShareIsStillSent() throws {
        let script = try FrameScript()
        let large = String(repeating: "x", count: 60_000)
        try script.submit(1, body: large, isBulk: true)
        #expect(dataBytes(script.write()).values.reduce(0, +) == 60_000)
    }

    @Test func smallBulkRequestsDoNotWait() throws {
        let script = try FrameScript()
        for tag in 0..<50 { try script.submit(UInt64(tag), isBulk: true) }
        #expect(dataBytes(script.write()).count == 50)
        #expect(script.client.held.isEmpty)
    }

    /// Runs a server that responds to each complete request and grows the connection's window by `refill`.
    private func run(
        _ count: Int,
        refill: (_ left: Int) -> Int,
        script: FrameScript
    ) throws -> [StreamResult] {
        for tag in 0..<count { try script.submit(UInt64(tag), body: body, isBulk: true) }
        var left = 65_535
        var results: [StreamResult] = []
        while true {
            let frames = script.write()
            guard !frames.isEmpty else { return results + script.takeResults() }
            for frame in frames where frame.kind == .data {
                left -= frame.payload.count
                if frame.endsStream { try script.server(.headers(frame.streamID, status: 200, end: true)) }
                let more = refill(left)
                if more > 0 {
                    try script.server(windowUpdate(0, UInt32(more)))
                    left += more
                }
            }
            results += script.takeResults()
        }
    }

    @Test("All bulk requests complete if the server refills the window only when little of it is left")
    func lateRefill() throws {
        let results = try run(300, refill: { $0 < 12_000 ? 65_535 - $0 : 0 }, script: FrameScript(limit: 1000))
        #expect(results.count == 300)
        #expect(results.allSatisfy { $0.status == 200 })
    }

    @Test("All bulk requests complete even if the window never has room for a whole body again")
    func narrowWindow() throws {
        let results = try run(60, refill: { $0 < 2000 ? 3000 : 0 }, script: FrameScript(limit: 1000))
        #expect(results.count == 60)
        #expect(results.allSatisfy { $0.status == 200 })
    }
}
