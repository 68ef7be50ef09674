import APNSPool
import APNSSimulator

/// Sends through a group whose apps have a key and a client each, all at the same time.
struct GroupLoop: Sendable {
    let group: APNSClientGroup
    let loops: [ClosedLoop<APNSAppSender>]

    /// - Parameters:
    ///   - configuration: of the clients.
    ///   - apps: how many apps there are.
    ///   - pushes: of all apps together; each app sends as many.
    ///   - inFlight: of all apps together; at least one for each.
    init(
        _ configuration: APNSClientConfiguration,
        apps: Int,
        workload: Workload,
        pushes: Int,
        inFlight: Int
    ) throws {
        let connections = configuration.pool.size + configuration.pool.maxOverflow
        let group = try APNSClientGroup(
            configuration: .init(maxConnections: min(apps * connections, 100_000), client: configuration)
        )
        self.group = group
        self.loops = try (0..<apps).map { number in
            try group.add(
                APNSApp(
                    name: "app-\(number)",
                    topic: workload.topic,
                    authentication: .token(
                        privateKeyPEM: SimulatedKey().p8,
                        keyID: "ABC123DEFG",
                        teamID: "ABCDE12345"
                    ),
                    environments: [configuration.environment]
                )
            )
            return ClosedLoop(
                client: group.sender(for: "app-\(number)", in: configuration.environment),
                workload: workload,
                pushes: pushes / apps + (number < pushes % apps ? 1 : 0),
                inFlight: max(1, inFlight / apps)
            )
        }
    }

    /// One push of each app, so that all are connected.
    func warmUp() async {
        await withDiscardingTaskGroup { group in
            for loop in loops {
                group.addTask {
                    var first = loop
                    first.pushes = 1
                    _ = try? await first.run(.single)
                }
            }
        }
    }

    func run(_ mode: Mode) async throws -> Tally {
        let total = SharedTally()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for loop in loops { group.addTask { try await loop.run(mode, into: total) } }
            try await group.waitForAll()
        }
        return total.value
    }
}
