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

        init(_ id: String, offset: Duration = .zero, since: Int64 = 5, isShared: Bool = true) {
            let member = FleetMember(
                id: id,
                host: "host-\(id)",
                process: 7,
                version: "1",
                since: QueueTime(secondsSince1970: since)
            )
            self.machine = FleetMachine(member: member, isShared: isShared)
            self.offset = offset
        }

        func now(_ time: Duration) -> QueueTime {
            QueueTime(millisecondsSince1970: 0).advanced(by: self.offset + time)
        }

        /// A heartbeat whose calls of the storage take no time.
        mutating func beat(_ time: Duration, _ values: inout [String: [UInt8]]) {
            values["fleet/member/\(self.machine.member.id)"] = self.machine.nextHeartbeat()
            for (key, value) in self.machine.didRead(values, at: self.now(time)) where values[key] == value {
                values[key] = nil
            }
        }

        var members: [String] { self.machine.members.map(\.id) }
        var poster: String? { self.machine.members.first(where: \.postsWebhooks)?.id }
    }

    @Test("Relays see each other, with what each says about itself")
    func members() {
        var values: [String: [UInt8]] = [:]
        var (a, b) = (Relay("a"), Relay("b", offset: .seconds(86_400)))
        a.beat(.zero, &values)
        #expect(a.members == ["a"])
        b.beat(.seconds(1), &values)
        a.beat(.seconds(5), &values)
        #expect(a.members == ["a", "b"])
        #expect(b.members == ["b", "a"])
        #expect(a.machine.memberCount == 2)
        let seen = a.machine.members[1]
        #expect(seen.host == "host-b" && seen.process == 7 && seen.version == "1")
        #expect(seen.since == QueueTime(secondsSince1970: 5))
    }

    @Test("A value that cannot be read belongs to a member all the same")
    func newerMember() {
        var values: [String: [UInt8]] = ["fleet/member/x": [1, 2, 3]]
        var a = Relay("a")
        a.beat(.zero, &values)
        #expect(a.members == ["a", "x"])
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
            #expect(a.members == (second < 25 ? ["a", "b"] : ["a"]), "\(second)")
            #expect(values["fleet/member/b"] != nil, "\(second)")
        }
        a.beat(.seconds(65), &values)
        #expect(values["fleet/member/b"] == nil)
        // It was only slow.
        b.beat(.seconds(66), &values)
        a.beat(.seconds(70), &values)
        #expect(a.members == ["a", "b"])
    }

    @Test("Any relay names the values of relays that are gone, as it has seen them")
    func removes() throws {
        var values: [String: [UInt8]] = ["fleet/member/c": [1]]
        var (a, b) = (Relay("a"), Relay("b"))
        for second in stride(from: 0, through: 55, by: 5) {
            a.beat(.seconds(second), &values)
            values["fleet/member/b"] = b.machine.nextHeartbeat()
            let early = b.machine.didRead(values, at: b.now(.seconds(second)))
            #expect(early.isEmpty)
        }
        let removals = b.machine.didRead(values, at: b.now(.seconds(60)))
        #expect(removals.map(\.key) == ["fleet/member/c"] && removals.map(\.value) == [[1]])
        a.beat(.seconds(60), &values)
        #expect(values["fleet/member/c"] == nil)
    }

    @Test("The oldest relay posts to the webhooks, and the next oldest after it is gone")
    func takeOver() {
        var values: [String: [UInt8]] = [:]
        var (a, b) = (Relay("a", since: 5), Relay("b", offset: .seconds(-1_000), since: 9))
        #expect(a.poster == nil && b.poster == nil)
        for second in stride(from: 0, through: 100, by: 5) {
            a.beat(.seconds(second), &values)
            b.beat(.seconds(second + 1), &values)
            #expect(a.poster == "a" && b.poster == "a")
            #expect(a.machine.postsWebhooks && !b.machine.postsWebhooks)
        }
        // The last heartbeat of a was at 100 s, and b saw it at 101 s.
        for second in [106, 111, 116] { b.beat(.seconds(second), &values) }
        b.beat(.milliseconds(120_999), &values)
        #expect(b.poster == "a")
        b.beat(.seconds(121), &values)
        #expect(b.machine.postsWebhooks)
        // It was only slow.
        a.beat(.seconds(122), &values)
        b.beat(.seconds(126), &values)
        #expect(a.machine.postsWebhooks && b.poster == "a")
    }

    @Test("Of relays that started in the same millisecond, the one with the smaller id posts")
    func sameAge() {
        var values: [String: [UInt8]] = [:]
        var (a, b) = (Relay("b"), Relay("a"))
        a.beat(.zero, &values)
        b.beat(.zero, &values)
        a.beat(.seconds(5), &values)
        #expect(a.poster == "a" && b.poster == "a")
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
        #expect(Set(a.members) == ["a", "b", "dead"])
        b.beat(.seconds(301), &values)
        for second in [305, 310] {
            a.beat(.seconds(second), &values)
            b.beat(.seconds(second), &values)
        }
        #expect(Set(a.members) == ["a", "b", "dead"])
        a.beat(.seconds(315), &values)
        #expect(Set(a.members) == ["a", "b"])
    }

    @Test("A relay that leaves posts no more, and the others need not wait until it counts as gone")
    func leaves() {
        var values: [String: [UInt8]] = [:]
        var (a, b) = (Relay("a"), Relay("b"))
        a.beat(.zero, &values)
        b.beat(.zero, &values)
        a.machine.leave()
        #expect(!a.machine.postsWebhooks && a.poster == nil)
        values["fleet/member/a"] = nil
        b.beat(.seconds(5), &values)
        #expect(b.machine.postsWebhooks && b.members == ["b"])
    }

    @Test("With an engine for one process, a relay posts at once and observes nobody")
    func alone() {
        var a = Relay("a", isShared: false)
        #expect(a.machine.postsWebhooks)
        #expect(a.machine.isStable(at: a.now(.zero)))
        let removals = a.machine.didRead(["fleet/member/old": [1]], at: a.now(.zero))
        #expect(removals.isEmpty)
        #expect(a.members == ["a"] && a.machine.memberCount == 1)
        a.machine.leave()
        #expect(!a.machine.postsWebhooks)
    }

    @Test(
        "Whatever fails and whoever dies, a living relay posts within 30 s, and all agree which one once nothing fails",
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
            let since = Int64.random(in: 0...1_000, using: &random)
            relays.append(Relay("r\(relays.count)-\(time)", offset: offset, since: since))
            nextBeat.append(time)
            isAway.append(false)
        }
        for _ in 0..<4 { join(.zero) }
        var ticksWithoutPoster = 0
        var kills = 0
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
                kills += 1
                ticksWithoutPoster = 0
            }
            // A relay that was away counts the others as living for longer, because the time did not count for it.
            let canPost = relays.indices.contains { !isAway[$0] && relays[$0].machine.postsWebhooks }
            ticksWithoutPoster = canPost || isAway.contains(true) ? 0 : ticksWithoutPoster + 1
            #expect(ticksWithoutPoster <= 30 * 4, "seed \(seed)")
        }
        #expect(kills > 5)
        // Without further failures, the dead are removed, and all relays agree.
        for index in relays.indices { nextBeat[index] = .seconds(750) }
        for tick in 3_000..<3_800 {
            let time = Duration.milliseconds(tick * 250)
            for index in relays.indices where nextBeat[index] <= time {
                nextBeat[index] = time + .seconds(5)
                relays[index].beat(time, &values)
            }
        }
        #expect(values.keys.filter { $0.hasPrefix("fleet/member/") }.count == 4)
        #expect(relays.allSatisfy { $0.machine.memberCount == 4 })
        let oldest = relays.map(\.machine.member).min { ($0.since, $0.id) < ($1.since, $1.id) }
        #expect(relays.allSatisfy { $0.poster == oldest?.id })
    }
}
