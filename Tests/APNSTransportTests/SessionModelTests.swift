import NIOCore
import TestSupport
import Testing

@testable import APNSTransport

/// Random steps, compared with a model that predicts the ending of each stream.
struct SessionModelTests {
    private struct Stream {
        var tag: UInt64
        var deadline: Int
        var id: Int32?
        var hasHeaders = false
    }

    /// The server's side: the frames it received and sent, and the expected endings.
    private struct World {
        var random: SeededRandom
        var script: FrameScript
        var limit: Int
        var now = 0
        var lastGoAway = Int32.max
        var isGoingAway = false
        /// Submitted streams whose HEADERS are not written: nghttp2 holds them, or they wait for the send window.
        var unwritten: [Stream] = []
        var written: [Stream] = []
        var seen: Set<UInt64> = []
        var expected: [UInt64: StreamEnding] = [:]

        init(random: SeededRandom, limit: Int) throws {
            self.random = random
            self.limit = limit
            self.script = try FrameScript(limit: UInt32(limit))
        }

        mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &self.random) }

        mutating func write(_ count: Int) {
            for frame in self.script.write(frames: count) where frame.kind == .headers {
                // Interactive requests may overtake bulk ones.
                let table = self.script.client.streams
                guard let index = table.index(of: frame.streamID),
                    let place = self.unwritten.firstIndex(where: { $0.tag == table[index].tag.rawValue })
                else {
                    Issue.record("HEADERS of a request that had ended or was already written")
                    continue
                }
                var stream = self.unwritten.remove(at: place)
                stream.id = frame.streamID
                self.written.append(stream)
            }
        }

        mutating func end(_ stream: Stream, _ ending: StreamEnding) {
            self.expected[stream.tag] = stream.hasHeaders ? .response : ending
        }

        mutating func dropUnwritten() {
            for stream in self.unwritten { self.end(stream, .notSent) }
            self.unwritten.removeAll()
        }
    }

    @Test(arguments: 0..<TestScale.times(8)) func eachStreamGetsExactlyOneResult(_ seed: Int) throws {
        var random = SeededRandom(seed: UInt64(seed))
        var tag: UInt64 = 0
        var steps = 0
        while steps < 1000 {
            var world = try World(random: random, limit: .random(in: 0...12, using: &random))
            for _ in 0..<Int.random(in: 1...150, using: &random) {
                steps += 1
                try self.step(&world, &tag)
                if !self.check(&world, "seed \(seed), step \(steps)") { return }
            }
            world.script.loseConnection()
            world.dropUnwritten()
            for stream in world.written { world.end(stream, .unknown) }
            world.written.removeAll()
            #expect(self.check(&world, "seed \(seed), end"))
            #expect(world.expected.isEmpty, "seed \(seed): no result for \(world.expected)")
            random = world.random
        }
    }

    private func step(_ world: inout World, _ tag: inout UInt64) throws {
        switch world.number(0...24) {
        case 0...6:
            tag += 1
            let deadline = world.now + world.number(1...30)
            let size = [10, 10, 5000, 90_000][world.number(0...3)]
            let body = String(repeating: "b", count: size)
            let open = world.unwritten.count + world.written.count
            let result = try world.script.submit(
                tag,
                body: body,
                deadline: .uptimeNanoseconds(UInt64(deadline)),
                isBulk: world.number(0...1) == 0
            )
            #expect(result == (!world.isGoingAway && open < world.limit ? .accepted : .refused(.noCapacity)))
            if result == .accepted { world.unwritten.append(Stream(tag: tag, deadline: deadline)) }
        case 7...9:
            world.write(world.number(1...6))
        case 10...12:
            guard let stream = world.written.randomElement(using: &world.random), let id = stream.id else { return }
            let place = world.written.firstIndex { $0.id == id } ?? 0
            switch world.number(0...3) {
            case 0:
                try world.script.server(.headers(id, status: 100))
                if stream.hasHeaders { world.written.remove(at: place) }  // pseudo fields in trailers: see below
            case 1 where !stream.hasHeaders:
                try world.script.server(.headers(id, status: 200))
                world.written[place].hasHeaders = true
                return
            default:
                let end = stream.hasHeaders ? Frame.data(id, "x", end: true) : .headers(id, status: 200, end: true)
                try world.script.server(end)
                world.written.remove(at: place)
                world.end(stream, .response)
                return
            }
            if stream.hasHeaders {
                // A second block without END_STREAM, with `:status`: broken, nghttp2 resets it at its next write.
                world.end(stream, .response)
                world.write(.max)
            }
        case 13:
            guard let stream = world.written.randomElement(using: &world.random), let id = stream.id else { return }
            let isRefused = world.number(0...1) == 0
            try world.script.server(.reset(id, isRefused ? .refusedStream : .internalError))
            world.written.removeAll { $0.id == id }
            world.end(stream, isRefused ? .notProcessed : .unknown)
        case 14...15:
            world.limit = world.number(0...12)
            let open = world.unwritten.count + world.written.count
            try world.script.server(.settings(maxConcurrentStreams: UInt32(world.limit)))
            if open > world.limit { world.dropUnwritten() }
        case 16:
            let streams = world.unwritten + world.written
            guard let stream = streams.randomElement(using: &world.random) else { return }
            world.script.cancel(stream.tag)
            world.unwritten.removeAll { $0.tag == stream.tag }
            world.written.removeAll { $0.tag == stream.tag }
            world.end(stream, stream.id == nil ? .notSent : .unknown)
        case 17...18:
            world.now += world.number(1...10)
            world.script.expire(at: .uptimeNanoseconds(UInt64(world.now)))
            for stream in world.unwritten where stream.deadline <= world.now { world.end(stream, .notSent) }
            for stream in world.written where stream.deadline <= world.now { world.end(stream, .unknown) }
            world.unwritten.removeAll { $0.deadline <= world.now }
            world.written.removeAll { $0.deadline <= world.now }
        case 19...21:
            let increment = UInt32([100, 6000, 65_535][world.number(0...2)])
            try world.script.server(Frame(.windowUpdate, bigEndian(increment)))
        case 22:
            _ = try world.script.client.relaxSendWindow(now: world.script.now)
        case 23:
            for tag in world.script.checkWindowLimit() {
                guard let index = world.unwritten.firstIndex(where: { $0.tag == tag }) else {
                    Issue.record("\(tag) was withdrawn, although it had ended or was written")
                    continue
                }
                world.end(world.unwritten.remove(at: index), .notSent)
            }
        default:
            guard world.number(0...3) == 0 else { return }
            let last = world.number(0...2) == 0 ? Int32.max : world.written.randomElement(using: &world.random)?.id ?? 0
            guard last <= world.lastGoAway else { return }
            world.lastGoAway = last
            world.isGoingAway = true
            try world.script.server(.goAway(last))
            world.dropUnwritten()
            for stream in world.written where stream.id ?? 0 > last { world.end(stream, .notProcessed) }
            world.written.removeAll { $0.id ?? 0 > last }
        }
    }

    private func check(_ world: inout World, _ place: String) -> Bool {
        for result in world.script.takeResults() {
            guard let expected = world.expected.removeValue(forKey: result.tag.rawValue) else {
                Issue.record("\(place): an extra result for \(result.tag): \(result.ending)")
                return false
            }
            guard world.seen.insert(result.tag.rawValue).inserted, result.ending == expected else {
                Issue.record("\(place): \(result.tag) ended as \(result.ending), not \(expected)")
                return false
            }
        }
        let open = world.unwritten.count + world.written.count
        guard world.expected.isEmpty, world.script.client.openCount == open,
            world.script.client.unwrittenCount + world.script.client.held.count == world.unwritten.count
        else {
            Issue.record("\(place): expected \(world.expected), open \(open), got \(world.script.client.openCount)")
            return false
        }
        return true
    }
}
