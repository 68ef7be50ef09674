import PushQueue
import PushQueueConformance
import Testing

@testable import APNSRelay

/// The decisions of a fleet, over values in memory.
struct FleetMachineTests {
    /// A relay whose monotonic clock begins at any time.
    private struct Relay {
        var machine: FleetMachine
        var offset: Duration

        init(_ id: String, offset: Duration = .zero, isShared: Bool = true) {
            let member = FleetMember(
                id: id,
                host: "host-\(id)",
                process: 7,
                version: "1",
                since: QueueTime(secondsSince1970: 5)
            )
            self.machine = FleetMachine(member: member, isShared: isShared)
            self.offset = offset
            self.machine.want(.webhooks)
        }

        func now(_ time: Duration) -> QueueTime {
            QueueTime(millisecondsSince1970: 0).advanced(by: self.offset + time)
        }

        /// A heartbeat whose calls of the storage take no time.
        mutating func beat(_ time: Duration, _ values: inout [String: [UInt8]]) {
            let now = self.now(time)
            values["fleet/member/\(self.machine.member.id)"] = self.machine.nextHeartbeat()
            self.machine.didStoreHeartbeat(at: now)
            for exchange in self.machine.didRead(values, at: now) {
                self.machine.didExchange(exchange, isDone: Self.perform(exchange, &values), at: now)
            }
        }

        static func perform(_ exchange: FleetMachine.Exchange, _ values: inout [String: [UInt8]]) -> Bool {
            guard values[exchange.key] == exchange.expected else { return false }
            values[exchange.key] = exchange.value
            return true
        }

        func members(_ time: Duration) -> [String] { self.machine.members(at: self.now(time)).map(\.id) }
        func holds(_ duty: FleetDuty, _ time: Duration) -> Bool { self.machine.holds(duty, at: self.now(time)) }
    }

    @Test("Relays see each other, with what each says about itself")
    func members() {
        var values: [String: [UInt8]] = [:]
        var (a, b) = (Relay("a"), Relay("b", offset: .seconds(86_400)))
        a.beat(.zero, &values)
        #expect(a.members(.zero) == ["a"])
        b.beat(.seconds(1), &values)
        a.beat(.seconds(5), &values)
        #expect(a.members(.seconds(5)) == ["a", "b"])
        #expect(b.members(.seconds(5)) == ["b", "a"])
        #expect(a.machine.memberCount == 2)
        let seen = a.machine.members(at: a.now(.seconds(5)))[1]
        #expect(seen.host == "host-b" && seen.process == 7 && seen.version == "1")
        #expect(seen.since == QueueTime(secondsSince1970: 5))
    }

    @Test("A value that cannot be read belongs to a member all the same")
    func newerMember() {
        var values: [String: [UInt8]] = ["fleet/member/x": [1, 2, 3]]
        var a = Relay("a")
        a.beat(.zero, &values)
        #expect(a.members(.zero) == ["a", "x"])
    }

    @Test("A relay whose heartbeat does not change for 20 s is gone, and its value is removed after 60 s")
    func gone() {
        var values: [String: [UInt8]] = [:]
        var (a, b) = (Relay("a"), Relay("b"))
        a.beat(.zero, &values)
        b.beat(.zero, &values)
        for second in stride(from: 5, through: 60, by: 5) {
            a.beat(.seconds(second), &values)
            // Seen first at 5 s.
            #expect(a.members(.seconds(second)) == (second < 25 ? ["a", "b"] : ["a"]), "\(second)")
            #expect(values["fleet/member/b"] != nil, "\(second)")
        }
        a.beat(.seconds(65), &values)
        #expect(values["fleet/member/b"] == nil)
        // It was only slow.
        b.beat(.seconds(66), &values)
        a.beat(.seconds(70), &values)
        #expect(a.members(.seconds(70)) == ["a", "b"])
    }

    @Test("Only the leader removes values, and none that has changed")
    func removes() throws {
        var values: [String: [UInt8]] = [:]
        var (a, b, c) = (Relay("a"), Relay("b"), Relay("c"))
        c.beat(.zero, &values)
        values = values.filter { $0.key == "fleet/member/c" }
        var exchanges: [String: [FleetMachine.Exchange]] = [:]
        for second in stride(from: 0, through: 60, by: 5) {
            a.beat(.seconds(second), &values)
            values["fleet/member/b"] = b.machine.nextHeartbeat()
            b.machine.didStoreHeartbeat(at: b.now(.seconds(second)))
            exchanges["b"] = b.machine.didRead(values, at: b.now(.seconds(second)))
        }
        #expect(a.holds(.leader, .seconds(60)) && !b.holds(.leader, .seconds(60)))
        #expect(exchanges["b"] == [])
        #expect(values["fleet/member/c"] == nil)

        values["fleet/member/c"] = [1]
        for second in stride(from: 65, through: 120, by: 5) { a.beat(.seconds(second), &values) }
        let exchanged = a.machine.didRead(values, at: a.now(.seconds(125)))
        let removal = try #require(exchanged.first { $0.key == "fleet/member/c" })
        #expect(removal.value == nil)
        values["fleet/member/c"] = [2]
        #expect(!Relay.perform(removal, &values))
        #expect(values["fleet/member/c"] == [2])
    }

    @Test("A duty stays with its holder while it sends heartbeats, and passes on 20 s after the last one")
    func takeOver() {
        var values: [String: [UInt8]] = [:]
        var (a, b) = (Relay("a"), Relay("b", offset: .seconds(-1_000)))
        for second in stride(from: 0, through: 100, by: 5) {
            a.beat(.seconds(second), &values)
            b.beat(.seconds(second + 1), &values)
            #expect(a.holds(.webhooks, .seconds(second + 4)) && !b.holds(.webhooks, .seconds(second + 4)))
        }
        #expect(b.machine.members(at: b.now(.seconds(101))).map(\.duties) == [[], ["leader", "webhooks"]])
        // The last heartbeat of a was at 100 s, and b saw it at 101 s.
        #expect(a.holds(.webhooks, .milliseconds(119_999)))
        #expect(!a.holds(.webhooks, .seconds(120)))
        b.beat(.seconds(106), &values)
        b.beat(.seconds(111), &values)
        b.beat(.seconds(116), &values)
        b.beat(.milliseconds(120_999), &values)
        #expect(!b.holds(.webhooks, .milliseconds(120_999)))
        b.beat(.seconds(121), &values)
        #expect(b.holds(.webhooks, .seconds(121)) && b.holds(.leader, .seconds(121)))
        // The earlier holder notices at its next heartbeat, and does not take it back.
        a.beat(.seconds(122), &values)
        #expect(!a.holds(.webhooks, .seconds(122)))
        #expect(b.holds(.webhooks, .seconds(122)))
    }

    @Test("The time of a duty counts from the moment at which storing the heartbeat began, however long that took")
    func slowStorage() {
        var values: [String: [UInt8]] = [:]
        var a = Relay("a")
        a.beat(.zero, &values)
        values["fleet/member/a"] = a.machine.nextHeartbeat()
        a.machine.didStoreHeartbeat(at: a.now(.seconds(5)))
        for exchange in a.machine.didRead(values, at: a.now(.seconds(18))) {
            a.machine.didExchange(exchange, isDone: Relay.perform(exchange, &values), at: a.now(.seconds(18)))
        }
        #expect(a.holds(.webhooks, .milliseconds(24_999)))
        #expect(!a.holds(.webhooks, .seconds(25)))
    }

    @Test("A relay that cannot store its heartbeat gives up its duties, and takes them again if nobody else has")
    func ownOutage() {
        var values: [String: [UInt8]] = [:]
        var a = Relay("a")
        a.beat(.zero, &values)
        #expect(a.machine.nextEnd(after: a.now(.zero)) == a.now(.seconds(20)))
        #expect(!a.holds(.webhooks, .seconds(20)))
        a.beat(.seconds(40), &values)
        #expect(a.holds(.webhooks, .seconds(40)))
    }

    @Test("After an outage of the storage, relays do not count each other as gone")
    func outageDoesNotCount() {
        var values: [String: [UInt8]] = [:]
        var (a, b, dead) = (Relay("a"), Relay("b"), Relay("dead"))
        for second in stride(from: 0, through: 20, by: 5) {
            a.beat(.seconds(second), &values)
            b.beat(.seconds(second), &values)
            if second == 10 { dead.beat(.seconds(second), &values) }
        }
        // No relay can use the storage from 20 s to 300 s.
        a.beat(.seconds(300), &values)
        #expect(Set(a.members(.seconds(300))) == ["a", "b", "dead"])
        b.beat(.seconds(301), &values)
        for second in [305, 310] {
            a.beat(.seconds(second), &values)
            b.beat(.seconds(second), &values)
        }
        #expect(Set(a.members(.seconds(310))) == ["a", "b", "dead"])
        a.beat(.seconds(315), &values)
        #expect(Set(a.members(.seconds(315))) == ["a", "b"])
    }

    @Test("A relay that leaves, or stops wanting a duty, lets another one have it at once")
    func leaves() {
        var values: [String: [UInt8]] = [:]
        var (a, b, c) = (Relay("a"), Relay("b"), Relay("c"))
        a.beat(.zero, &values)
        b.beat(.zero, &values)
        for exchange in a.machine.leave() { #expect(Relay.perform(exchange, &values)) }
        #expect(!a.holds(.webhooks, .zero))
        b.beat(.seconds(5), &values)
        #expect(b.holds(.webhooks, .seconds(5)) && b.holds(.leader, .seconds(5)))
        b.machine.stopWanting(.webhooks)
        #expect(!b.holds(.webhooks, .seconds(5)))
        b.beat(.seconds(10), &values)
        c.beat(.seconds(10), &values)
        #expect(c.holds(.webhooks, .seconds(10)) && !c.holds(.leader, .seconds(10)))
    }

    @Test("With an engine for one process, a relay has its duties at once and exchanges nothing")
    func alone() {
        var a = Relay("a", isShared: false)
        #expect(a.holds(.webhooks, .zero) && a.holds(.leader, .zero))
        #expect(a.machine.isStable(at: a.now(.zero)))
        let values = ["fleet/duty/webhooks": Array(#"{"beat":1,"member":"old"}"#.utf8), "fleet/member/old": [1]]
        #expect(a.machine.didRead(values, at: a.now(.zero)) == [])
        #expect(a.members(.zero) == ["a"] && a.machine.memberCount == 1)
        #expect(a.machine.leave() == [])
        #expect(!a.holds(.webhooks, .zero))
    }

    @Test(
        "Whatever fails and whoever dies, at most one relay has a duty at a time, and a relay that lives gets it",
        arguments: 1...30
    )
    func random(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var values: [String: [UInt8]] = [:]
        var relays: [Relay] = []
        var nextBeat: [Duration] = []
        var isAway: [Bool] = []
        func join(_ time: Duration) {
            let offset = Duration.seconds(Int.random(in: -100_000...100_000, using: &random))
            relays.append(Relay("r\(relays.count)-\(time)", offset: offset))
            nextBeat.append(time)
            isAway.append(false)
        }
        for _ in 0..<4 { join(.zero) }
        var held = 0
        for tick in 0..<3_000 {
            let time = Duration.milliseconds(tick * 250)
            for index in relays.indices where nextBeat[index] <= time {
                nextBeat[index] = time + .milliseconds(Int.random(in: 4_500...6_000, using: &random))
                if !isAway[index] { relays[index].beat(time, &values) }
            }
            for index in relays.indices where Int.random(in: 0..<400, using: &random) == 0 { isAway[index].toggle() }
            if Int.random(in: 0..<200, using: &random) == 0 {
                let index = Int.random(in: 0..<relays.count, using: &random)
                // Killed; another one starts later.
                relays.remove(at: index)
                nextBeat.remove(at: index)
                isAway.remove(at: index)
                join(time + .seconds(3))
            }
            let holders = relays.filter { $0.holds(.webhooks, time) }
            #expect(holders.count <= 1)
            held += holders.count
        }
        #expect(held > 500)
        // Without further failures, the dead are removed and one relay has the duty.
        for index in relays.indices { nextBeat[index] = .seconds(750) }
        for tick in 3_000..<3_800 {
            let time = Duration.milliseconds(tick * 250)
            for index in relays.indices where nextBeat[index] <= time {
                nextBeat[index] = time + .seconds(5)
                relays[index].beat(time, &values)
            }
        }
        #expect(values.keys.filter { $0.hasPrefix("fleet/member/") }.count == 4)
        #expect(relays.count { $0.holds(.webhooks, .milliseconds(3_799 * 250)) } == 1)
        #expect(relays.allSatisfy { $0.machine.memberCount == 4 })
    }
}
