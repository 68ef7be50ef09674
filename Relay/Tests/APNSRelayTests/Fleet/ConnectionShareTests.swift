import PushQueue
import PushQueueConformance
import Synchronization
import Testing

@testable import APNSRelay

struct ConnectionShareTests {
    @Test("A share becomes smaller at once, and larger once the members are stable")
    func shrinksAtOnce() {
        var share = ConnectionShare()
        share.update(budget: 40, members: 1, isStable: false)
        #expect(share.size == 1)
        share.update(budget: 40, members: 1, isStable: true)
        #expect(share.size == 40)
        share.update(budget: 40, members: 2, isStable: false)
        #expect(share.size == 20)
        share.update(budget: 40, members: 1, isStable: false)
        #expect(share.size == 20)
        share.update(budget: 10, members: 1, isStable: false)
        #expect(share.size == 10)
        share.update(budget: 10, members: 1, isStable: true)
        #expect(share.size == 10)
        share.update(budget: nil, members: 1, isStable: true)
        #expect(share.size == nil)
    }

    @Test("Each member has at least one connection")
    func atLeastOne() {
        var share = ConnectionShare()
        share.update(budget: 3, members: 10, isStable: true)
        #expect(share.size == 1)
        share.update(budget: 1, members: 0, isStable: true)
        #expect(share.size == 1)
    }

    @Test("Relays that come and go never exceed the budget for longer than a heartbeat", .timeLimit(.minutes(5)))
    func budget() async throws {
        try await FleetFixture.run { fixture in
            let sizes = Sizes()
            var relays: [FleetFixture.Member] = []
            for number in 0..<4 { relays.append(fixture.relay("r\(number)", maxConnections: 24, sizes.apply)) }
            var exceeded = 0
            var longest = 0
            var started = 1
            var largest = 0
            for second in 0..<140 {
                let known = started
                if second == 20 { started = 2 }
                if second == 31 { started = 4 }
                // The first heartbeat is at once.
                for relay in relays.prefix(started).dropFirst(second == 0 ? 0 : known) { await relay.fleet.beat() }
                if second == 70 {
                    // Killed; its connections are gone with it.
                    relays[0].queue.kill()
                    sizes.remove("r0")
                }
                fixture.clock.advance(by: .seconds(1))
                for relay in relays.prefix(started) where second < 70 || relay !== relays[0] { await relay.tick() }
                if sizes.sum > 24 { exceeded += 1 } else { exceeded = 0 }
                longest = max(longest, exceeded)
                largest = max(largest, sizes.sum)
                switch second {
                case 19: #expect(sizes.all == ["r0": 24])
                case 30: #expect(sizes.all == ["r0": 12, "r1": 12])
                case 69: #expect(sizes.all == ["r0": 6, "r1": 6, "r2": 6, "r3": 6])
                // It counts as gone 20 s after its last change was seen.
                case 84: #expect(sizes.all == ["r1": 6, "r2": 6, "r3": 6])
                case 139: #expect(sizes.all == ["r1": 8, "r2": 8, "r3": 8])
                default: break
                }
            }
            // A new relay has one connection until the others have made their shares smaller.
            #expect(longest <= 5)
            #expect(largest <= 26)
        }
    }

    @Test("A budget of the fleet's settings takes precedence, and ends with them")
    func settings() async throws {
        try await FleetFixture.run { fixture in
            let sizes = Sizes()
            let relay = fixture.relay("a", maxConnections: 10, sizes.apply)
            relay.fleet.update()
            #expect(sizes.all == ["a": 1])
            await fixture.pass(15, relay)
            #expect(sizes.all == ["a": 10])
            relay.fleet.didStore(FleetSettings(maxConnections: 4).json)
            #expect(sizes.all == ["a": 4])
            relay.fleet.didStore(FleetSettings().json)
            #expect(sizes.all == ["a": 10])
        }
    }

    /// The connections of each relay.
    private final class Sizes: Sendable {
        private let state = Mutex<[String: Int]>([:])

        func apply(_ id: String, _ effects: FleetEffects) { self.state.withLock { $0[id] = effects.poolSize } }
        func remove(_ id: String) { self.state.withLock { $0[id] = nil } }
        var all: [String: Int] { self.state.withLock { $0 } }
        var sum: Int { self.all.values.reduce(0, +) }
    }
}
