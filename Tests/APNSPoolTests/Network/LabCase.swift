import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A bad network, and what a client does on it.
struct LabCase: Sendable {
    let name: String
    /// Whether the short form of the lab contains it.
    private(set) var isInShort = false
    /// The router's settings from the beginning.
    private(set) var commands: [String] = []
    private(set) var configure: @Sendable (inout APNSClientConfiguration) -> Void = { _ in }
    let body: @Sendable (LabRun) async throws -> Void

    /// The longest time until a client uses a network that works again: the longest backoff (30 s), and a connect
    /// (10 s).
    private static let longestRecovery = Duration.seconds(40)

    static let all: [LabCase] = lastingConditions + outages + deadPeers + names

    // MARK: Networks that are slow or lossy, but work

    private static let lastingConditions =
        [
            lasting("round trip of 20 ms", "both delay 10", isInShort: true),
            lasting("round trip of 100 ms", "both delay 50"),
            lasting("round trip of 200 ms", "both delay 100"),
            lasting("round trip of 300 ms", "both delay 150", isInShort: true),
            lasting("1 % loss, 50 ms", "both delay 25", "both loss 1"),
            lasting("5 % loss, 50 ms", "both delay 25", "both loss 5", isInShort: true),
            lasting("20 % loss, 50 ms", "both delay 25", "both loss 20", mayLoseConnections: true),
            lasting(
                "10 % reordering and jitter, 50 ms",
                "both delay 20",
                "both jitter 10",
                "both reorder 10",
                isInShort: true
            ),
            lasting(
                "1 Mbit/s, 50 ms, 4 KB payloads",
                "both delay 25",
                "both rate 1000",
                every: .milliseconds(50),
                payloadBytes: 4000,
                pushes: 300,
                isInShort: true
            ),
            lasting(
                "1 Mbit/s, 50 ms, 4 KB payloads, overloaded by a third",
                "both delay 25",
                "both rate 1000",
                payloadBytes: 4000,
                mayLoseConnections: true
            ),
            // The send window limits bulk calls to about 8 bodies a round trip and connection. With the defaults, the
            // client must open overflow connections so that no push misses its deadline.
            bulk("bulk call, 300 ms, 4 KB payloads", "both delay 150"),
            bulk(
                "bulk call, 300 ms, 4 KB payloads, 4 connections, 50 in flight",
                "both delay 150",
                connections: 4,
                maxInFlight: 50,
                isInShort: true
            ),
            bulk(
                "bulk call, 1 Mbit/s, 50 ms, 4 KB payloads, 50 in flight",
                "both delay 25",
                "both rate 1000",
                maxInFlight: 50
            ),
        ]

    private static func lasting(
        _ name: String,
        _ commands: String...,
        every interval: Duration = .milliseconds(25),
        payloadBytes: Int = 30,
        pushes: Int = Lab.isShort ? 400 : 1000,
        mayLoseConnections: Bool = false,
        isInShort: Bool = false
    ) -> LabCase {
        LabCase(name: name, isInShort: isInShort, commands: commands) { run in
            try await run.client.start()
            await run.traffic(every: interval, payloadBytes: payloadBytes) {
                await run.waitForRecovery(within: longestRecovery)
                await run.waitForAcceptances(pushes, within: .seconds(90))
            }
            if !mayLoseConnections { #expect(run.losses == 0, "\(name): a working connection was given up") }
        }
    }

    private static func bulk(
        _ name: String,
        _ commands: String...,
        connections: Int = 1,
        maxInFlight: Int? = nil,
        isInShort: Bool = false
    ) -> LabCase {
        LabCase(
            name: name,
            isInShort: isInShort,
            commands: commands,
            configure: { $0.pool.size = connections },
            body: { run in
                try await run.client.start()
                var options = BulkOptions()
                if let maxInFlight { options.maxInFlight = maxInFlight }
                let accepted = await run.bulk(1000, payloadBytes: 4000, options: options)
                #expect(accepted == 1000, "\(name)")
                #expect(run.losses == 0, "\(name): a working connection was given up")
            }
        )
    }

    // MARK: Outages

    private static let outages = [
        outage(.seconds(3), isInShort: true), outage(.seconds(10)), outage(.seconds(30), isInShort: true),
        outage(.seconds(60)), outage(.seconds(120)),
        LabCase(
            name: "link down for 10 s, unknown pushes are resent",
            isInShort: true,
            configure: { $0.retry.resendsUnknown = true },
            body: { run in
                try await outage(.seconds(10)).body(run)
                #expect(run.failures == 0)
            }
        ),
        LabCase(name: "own interface down for 10 s", isInShort: true) { run in
            try await run.connect()
            try await run.traffic {
                try Lab.shell("ip link set \(run.network.clientDevice) down")
                try await run.pause(.seconds(10))
                try Lab.shell("ip link set \(run.network.clientDevice) up")
                await run.waitForRecovery(within: longestRecovery)
                await run.waitForAcceptances(20, within: .seconds(30))
            }
        },
        LabCase(name: "packets above 1200 bytes disappear for 30 s, 4 KB payloads", isInShort: true) { run in
            try await run.connect()
            try await run.traffic(payloadBytes: 4000) {
                try run.network.set("both mtu 1200")
                try await run.pause(.seconds(30))
                try run.network.set("both mtu 0")
                await run.waitForRecovery(within: longestRecovery)
                await run.waitForAcceptances(20, within: .seconds(30))
            }
        },
        LabCase(name: "packets above 1200 bytes disappear, small payloads", commands: ["both mtu 1200"]) { run in
            try await run.client.start()
            await run.traffic {
                await run.waitForRecovery(within: longestRecovery)
                // A packet may carry several pushes, so some disappear on a busy machine.
                await run.waitForAcceptances(200, within: .seconds(90))
            }
        },
    ]

    private static func outage(_ duration: Duration, isInShort: Bool = false) -> LabCase {
        LabCase(name: "link down for \(duration.components.seconds) s", isInShort: isInShort) { run in
            try await run.connect()
            try await run.traffic {
                try run.network.set("both loss 100")
                try await run.pause(duration)
                try run.network.set("both loss 0")
                await run.waitForRecovery(within: longestRecovery)
                await run.waitForAcceptances(20, within: .seconds(30))
            }
        }
    }

    // MARK: Peers that forgot the connection

    private static let deadPeers = [
        // A check of the path (2 s) finds it before the push is written, and another connection sends the push.
        forgotten("NAT forgets a connection, quiet for 20 s", quiet: .seconds(20), isInShort: true) {
            try $0.network.set("forget")
        },
        forgotten("server forgets a connection (RST), quiet for 20 s", quiet: .seconds(20), isInShort: true) {
            try $0.network.serverForgets()
        },
        forgotten("NAT forgets a connection, quiet for 5 s", quiet: .seconds(5), certainty: .unknown) {
            try $0.network.set("forget")
        },
        forgotten("server forgets a connection (RST), quiet for 5 s", quiet: .seconds(5), certainty: .unknown) {
            try $0.network.serverForgets()
        },
        LabCase(name: "NAT forgets a busy connection", isInShort: true) { run in
            try await run.connect()
            try await run.traffic {
                try run.network.set("forget")
                await run.waitForRecovery(within: longestRecovery)
                await run.waitForAcceptances(20, within: .seconds(30))
            }
        },
        LabCase(name: "server forgets a busy connection (RST)") { run in
            try await run.connect()
            try await run.traffic {
                try run.network.serverForgets()
                await run.waitForRecovery(within: longestRecovery)
                await run.waitForAcceptances(20, within: .seconds(30))
            }
        },
    ]

    private static func forgotten(
        _ name: String,
        quiet: Duration,
        certainty: Certainty = .accepted,
        isInShort: Bool = false,
        _ fault: @escaping @Sendable (LabRun) throws -> Void
    ) -> LabCase {
        LabCase(name: name, isInShort: isInShort) { run in
            try await run.connect()
            try await run.pause(quiet)
            try fault(run)
            async let recovery: Void = run.waitForRecovery(within: longestRecovery)
            let outcome = await run.push()
            #expect(outcome.certainty == certainty, "\(name): \(outcome)")
            if outcome.certainty != .accepted { await run.push() }
            await recovery
        }
    }

    // MARK: Names and addresses

    private static let names = [
        LabCase(name: "the name gets another address, the old one is dead", isInShort: true) { run in
            try await run.connect()
            try await run.traffic {
                run.names.set(run.host, [run.network.address(3)])
                try run.network.removeServerAddress(2)
                await run.waitForRecovery(within: longestRecovery)
                await run.waitForAcceptances(20, within: .seconds(30))
            }
        },
        firstPush("IPv6 swallows packets, IPv4 works", isInShort: true) { run in
            run.names.set(run.host, [run.network.address6(9), run.network.address])
        },
        firstPush("three of four addresses are dead") { run in
            run.names.set(
                run.host,
                [run.network.address6(8), run.network.address6(9), run.network.address(9), run.network.address]
            )
        },
        LabCase(name: "IPv6 begins to swallow packets, IPv4 works") { run in
            run.names.set(run.host, [run.network.address6, run.network.address(3)])
            try await run.connect()
            try await run.traffic {
                try run.network.removeServerAddress(2)
                await run.waitForRecovery(within: longestRecovery)
                await run.waitForAcceptances(20, within: .seconds(30))
            }
        },
        firstPush("look-up takes 3 s", isInShort: true) { run in
            run.names.set(run.host, [run.network.address], delay: .seconds(3))
        },
        firstPush("look-up takes 8 s") { run in
            run.names.set(run.host, [run.network.address], delay: .seconds(8))
        },
        LabCase(name: "name server silent for 30 s") { run in
            run.names.set(run.host, [run.network.address], delay: nil)
            try await run.client.start()
            try await run.traffic {
                try await run.pause(.seconds(30))
                run.names.set(run.host, [run.network.address])
                await run.waitForRecovery(within: longestRecovery)
                await run.waitForAcceptances(20, within: .seconds(30))
            }
        },
        LabCase(name: "name server silent while connected") { run in
            try await run.connect()
            await run.traffic {
                run.names.set(run.host, [run.network.address], delay: nil)
                await run.waitForRecovery(within: .seconds(5))
                await run.waitForAcceptances(50, within: .seconds(30))
            }
            #expect(run.losses == 0)
        },
    ]

    /// Measures the first push of a new client.
    private static func firstPush(
        _ name: String,
        isInShort: Bool = false,
        _ prepare: @escaping @Sendable (LabRun) throws -> Void
    ) -> LabCase {
        LabCase(name: name, isInShort: isInShort) { run in
            try prepare(run)
            try await run.client.start()
            await run.traffic {
                await run.waitForRecovery(within: longestRecovery)
                await run.waitForAcceptances(20, within: .seconds(30))
            }
        }
    }
}
