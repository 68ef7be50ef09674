import Foundation
import PostgresTestServer
import PushQueueConformance
import RelayTestSupport
import Testing

/// Relays under load whose primary is killed, and whose standby is promoted. Their connection string names both.
@Suite(.timeLimit(.minutes(10))) struct FailoverTests {
    private struct ErrorBody: Decodable {
        struct Content: Decodable {
            struct Missing: Decodable {
                var first: Int
                var last: Int
                var cursor: String
            }
            var code: String
            var missing: Missing
        }
        var error: Content
    }

    private let servers: [PostgresServer]

    /// Creates two servers, of which the second one is the synchronous standby of the first one.
    init() async throws {
        self.servers = try await blocking {
            let servers = [try PostgresServer(), try PostgresServer()]
            try servers[1].follow(servers[0])
            try servers[0].waitForStandby()
            return servers
        }
    }

    @Test("Synchronous standbys that are promoted in turn lack nothing", arguments: ["send", "park"])
    func synchronous(afterFailover: String) async throws {
        let fleet = try FleetUnderTest(
            try await FleetUnderTest.simulator(delay: .milliseconds(200)),
            self.servers[0],
            standby: self.servers[1],
            settings: ["STORAGE_AFTER_FAILOVER": afterFailover, "STORAGE_TIMEOUT": "30s"]
        )
        try await fleet.start()
        var outages: [Duration] = []
        try await fleet.underLoad {
            for round in 0..<FleetUnderTest.promotions {
                let (primary, standby) = (self.servers[round % 2], self.servers[(round + 1) % 2])
                try await fleet.waitForAcknowledgements(200)
                let start = ContinuousClock.now
                try await blocking {
                    primary.kill()
                    try standby.promote()
                }
                try await fleet.waitForAcknowledgements(1)
                outages.append(start.duration(to: .now))
                try await fleet.waitForAcknowledgements(200)
                try await blocking {
                    try primary.follow(standby)
                    try standby.waitForStandby()
                }
            }
        }
        try await Patience.wait(for: "nothing is queued") { try await fleet.relays[0].depth().unsettled == 0 }
        let parked = try await fleet.relays[0].dropParked()
        print("\(afterFailover): \(parked) parked, outages \(outages)")
        if afterFailover == "send" { #expect(parked == 0) }
        try await fleet.check(unknownAtMost: parked)
        await fleet.end()
    }

    @Test("A standby that lags when it is promoted lacks pushes; none is repeated, and readers learn of the gap")
    func lagging() async throws {
        let (primary, standby) = (self.servers[0], self.servers[1])
        let fleet = try FleetUnderTest(
            try await FleetUnderTest.simulator(delay: .milliseconds(50)),
            primary,
            standby: standby,
            settings: ["STORAGE_TIMEOUT": "30s"]
        )
        try await fleet.start()
        let relay = fleet.relays[0]
        var known: Set<String> = []
        var lastKnown: SettledPush?
        var lastRead: SettledPush?
        try await fleet.underLoad {
            try await fleet.waitForOutcomes(200, at: relay)
            lastKnown = try await relay.feed().last
            known = Set(fleet.load.ids.values)
            try await blocking {
                try primary.setSynchronousStandbys("")
                try standby.stopFollowing()
            }
            try await fleet.waitForOutcomes(200, at: relay)
            lastRead = try await relay.feed().last
            try await blocking {
                primary.kill()
                try standby.promote()
            }
            try await fleet.waitForAcknowledgements(200)
        }
        try await Patience.wait(for: "nothing is queued") { try await relay.depth().unsettled == 0 }
        let parked = try await relay.dropParked()
        let settled = Set(try await relay.feed().map(\.id))
        let lost = Set(fleet.load.ids.values).subtracting(settled)
        print("lagging: \(parked) parked")
        #expect(!lost.isEmpty && lost.isDisjoint(with: known))
        for id in lost.prefix(20) { #expect(try await relay.request("GET", "/v1/pushes/\(id)").status == 404) }
        try await fleet.check(unknownAtMost: parked, lost: lost)

        let (old, new) = (try #require(lastKnown).cursor, try #require(lastRead).cursor)
        for relay in fleet.relays {
            let feed = try await relay.feed()
            let read = try #require(feed.firstIndex { $0.cursor == old })
            #expect(try await relay.feed(after: old) == Array(feed[(read + 1)...]))
            let response = try await relay.request("GET", "/v1/outcomes?after=\(new)")
            #expect(response.status == 410)
            let error = try response.decode(ErrorBody.self).error
            #expect(error.code == "outcomesMissing")
            // All outcomes of the new history follow.
            let rest = try await relay.feed(after: error.missing.cursor)
            #expect(feed.count - rest.count == error.missing.first - 1)
            #expect(new.hasPrefix("\(error.missing.last)-"))
        }
        await fleet.end()
    }
}
