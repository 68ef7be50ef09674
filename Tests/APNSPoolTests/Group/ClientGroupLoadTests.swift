import APNSSimulator
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The cost of many apps in one process, and of one app to the others. These tests measure, so they run alone.
@Suite(.timeLimit(.minutes(10)), .serialized)
struct ClientGroupLoadTests: GroupOfClients {
    /// The most pushes of a flood that may be processed while another app's push waits.
    private static let mostOvertakers = 5000

    @Test func moreAppsThanConnectionsTakeTurns() async throws {
        try await self.withGroup(configure: { $0.maxConnections = 3 }) { group, simulator in
            for number in 0..<12 { try group.add(self.app(number, simulator)) }
            let most = Atomic<Int>(0)
            let mostSeen = Atomic<Int>(0)
            let isOver = Atomic<Bool>(false)
            async let watch: Void = {
                while !isOver.load(ordering: .relaxed) {
                    most.max(group.reservedConnections, ordering: .relaxed)
                    mostSeen.max(simulator.openConnections, ordering: .relaxed)
                    try? await ContinuousClock().sleep(for: .milliseconds(1))
                }
            }()
            let outcomes = await withTaskGroup(of: PushOutcome.self) { tasks in
                for round in 0..<5 {
                    for number in 0..<12 {
                        tasks.addTask { await self.deliver(group, number, simulator) }
                    }
                    _ = round
                }
                return await tasks.reduce(into: []) { $0.append($1) }
            }
            isOver.store(true, ordering: .relaxed)
            await watch
            let failed = outcomes.filter { $0.certainty != .accepted }
            #expect(failed.isEmpty, "\(failed.prefix(3))")
            #expect(most.load(ordering: .relaxed) == 3)
            // The server may accept a connection before it notices that earlier ones closed to make room for it.
            #expect(mostSeen.load(ordering: .relaxed) <= 6)
        }
    }

    private static func residentKiB() throws -> Int {
        let text = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("VmRSS:") })
        return try #require(Int(line.split(separator: " ").dropFirst().first ?? ""))
    }

    /// 40 apps in two environments each, without any push.
    @Test func fortyIdleAppsCostNoConnectionAndLittleMemory() async throws {
        try await self.withGroup { group, simulator in
            // A first app loads what all apps share before the measurement.
            try group.add(self.app(100, simulator))
            #expect(await self.deliver(group, 100, simulator).certainty == .accepted)
            let before = try Self.residentKiB()
            for number in 0..<40 { try group.add(self.app(number, simulator, hosts: ["localhost", "127.0.0.1"])) }
            let growth = try Self.residentKiB() - before
            #expect(group.status.count == 81)
            #expect(simulator.openConnections == 1)
            #expect(growth <= 40 * 1024, "\(growth) KiB")
            print("idle: 40 apps x 2 environments, \(growth) KiB")
        }
    }

    /// The same apps after each was used: every client runs and has one connection.
    @Test func fortyUsedAppsShareTheirTrustRoots() async throws {
        try await self.withGroup { group, simulator in
            try group.add(self.app(100, simulator))
            #expect(await self.deliver(group, 100, simulator).certainty == .accepted)
            let before = try Self.residentKiB()
            for number in 0..<40 {
                try group.add(self.app(number, simulator, hosts: ["localhost", "127.0.0.1"]))
                #expect(await self.deliver(group, number, simulator).certainty == .accepted)
                #expect(await self.deliver(group, number, simulator, host: "127.0.0.1").certainty == .accepted)
            }
            let growth = try Self.residentKiB() - before
            #expect(simulator.openConnections == 81)
            // The growth includes the simulator's ends. 80 copies of the system's trust roots would take 340 MiB.
            #expect(growth <= 100 * 1024, "\(growth) KiB")
            print("running: 80 clients with a connection each, both ends, \(growth) KiB")
        }
    }

    /// The pushes of one app while another app sends a flood. Each of them waits for a part of the flood.
    @Test(arguments: [APNSClientGroup.Isolation.perKey, .perApp])
    func pushesSucceedBesideAnotherAppsFlood(_ isolation: APNSClientGroup.Isolation) async throws {
        var simulation = Simulator.Configuration()
        simulation.recording = .counts
        try await self.withGroup(simulation: simulation, configure: { $0.isolation = isolation }) { group, simulator in
            let key = SimulatedKey()
            try group.add(self.app(0, simulator, key: key))
            try group.add(self.app(1, simulator, key: key))
            /// The numbers of pushes that APNs processed between the beginning and the end of a push, in order.
            func overtakers() async -> [Int] {
                var counts: [Int] = []
                for _ in 0..<TestScale.size(60, thorough: 200) {
                    let before = simulator.record.requestsProcessed
                    #expect(await self.deliver(group, 1, simulator).certainty == .accepted)
                    counts.append(simulator.record.requestsProcessed - before - 1)
                }
                return counts.sorted()
            }
            _ = await self.deliver(group, 0, simulator)
            #expect(await overtakers().allSatisfy { $0 == 0 })
            let isOver = Latch()
            let environment = APNSEnvironment.custom(host: "localhost", port: simulator.port)
            let push = samplePush(topic: self.topic(0))
            async let flood = group.withClient(for: "app0", in: environment) { client in
                var accepted = 0
                while !isOver.isOpen {
                    accepted += await client.sendAll(push, to: (0..<1000).map { DeviceToken.sample($0) }).accepted
                }
                return accepted
            }
            try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsProcessed > 2000 }
            let flooded = await overtakers()
            isOver.open()
            let sent = try await flood
            #expect(sent >= 2000)
            let (median, percentile99) = (flooded[flooded.count / 2], flooded[flooded.count * 99 / 100 - 1])
            print(
                "\(isolation == .perKey ? "per key" : "per app"): a flood overtakes by \(median), p99 \(percentile99)"
            )
            #expect(percentile99 < Self.mostOvertakers)
        }
    }
}
