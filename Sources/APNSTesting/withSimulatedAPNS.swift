public import APNSPool
public import APNSSimulator
import Logging

/// Runs `body` with an APNs simulator on a free port of this machine and a client connected to it. A temporary
/// certificate authority and key are generated.
///
/// Notifications that name no topic are sent for `com.example.app`.
///
/// It starts in about a tenth of a second. Any number of simulators can run side by side.
///
/// ```swift
/// try await withSimulatedAPNS { client, simulator in
///     simulator.setToken(dead, .unregistered(sinceMilliseconds: 1_700_000_000_000))
///     await app.notifyEverybody(with: client)
///     #expect(simulator.record.requestsProcessed == 2)
/// }
/// ```
///
/// - Parameters:
///   - simulation: The simulator's behavior.
///   - configure: Changes the client's settings before it starts.
///   - body: Uses the client and the simulator.
/// - Returns: The result of `body`.
/// - Throws: Any error of `body`; `APNSConfigurationError` for invalid settings.
public func withSimulatedAPNS<Result: Sendable>(
    simulation: Simulator.Configuration = Simulator.Configuration(),
    configure: (inout APNSClientConfiguration) -> Void = { _ in },
    _ body: (APNSClient, Simulator) async throws -> Result
) async throws -> Result {
    let simulator = try await Simulator.start(simulation)
    let key = SimulatedKey()
    simulator.addKey(key)
    var configuration = APNSClientConfiguration(
        authentication: .token(privateKeyPEM: key.p8, keyID: key.keyID, teamID: key.teamID),
        environment: .custom(host: "localhost", port: simulator.port),
        defaultTopic: "com.example.app"
    )
    configuration.trust.caPEM = simulator.certificateAuthorityPEM
    configuration.logger.logLevel = .error
    configure(&configuration)
    do {
        let result = try await withAPNSClient(configuration: configuration) { client in
            try await body(client, simulator)
        }
        await simulator.stop()
        return result
    } catch {
        await simulator.stop()
        throw error
    }
}
