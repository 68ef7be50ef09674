public import APNSPool
public import APNSSimulator
import Logging

/// Runs `body` with a simulator of APNs on a free port of this machine and a client that is connected to it, with a
/// made-up certificate authority and key. Up in about a tenth of a second; any number may run side by side.
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
///   - simulation: how the simulator behaves.
///   - configure: changes the client's settings before it starts.
///   - body: uses both.
/// - Returns: what `body` returns.
/// - Throws: what `body` throws; `APNSConfigurationError` for settings that cannot be.
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
        environment: .custom(host: "localhost", port: simulator.port)
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
