import APNSSimulator
import APNSTesting
import Foundation
import APNSTransport
import Logging
import NIOCore
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool

let deviceToken = DeviceToken.sample(0)

extension DeviceToken {
    static func sample(_ number: Int) -> DeviceToken {
        let text = String(number, radix: 16)
        let digits = String(repeating: "0", count: 64 - text.count) + text
        guard let token = try? DeviceToken(digits) else { fatalError("not hexadecimal: \(digits)") }
        return token
    }
}

/// A push of a few bytes.
func samplePush(
    topic: String = "com.example.app",
    payload: String = #"{"aps":{"alert":"Hello"}}"#,
    expiration: Expiration = .systemDefault,
    collapseID: CollapseID? = nil,
    priority: Priority? = nil
) -> PreparedPush {
    do {
        return try PreparedPush(
            topic: topic,
            pushType: .alert,
            payload: Array(payload.utf8),
            priority: priority,
            expiration: expiration,
            collapseID: collapseID
        )
    } catch {
        fatalError("\(error)")
    }
}

extension APNSClient {
    /// A client that was never started, for tests without a server.
    static func unstarted() throws -> APNSClient { try APNSClient(configuration: .local(port: 1, caPEM: nil)) }
}

extension APNSClientConfiguration {
    /// One connection to a local server, without logs and with fast reconnects.
    ///
    /// The client's own time limits are so long that no pause of the process, however slow the machine, triggers one of
    /// them. A test of a limit sets that limit.
    static func local(port: Int, caPEM: String?, host: String = "localhost") -> APNSClientConfiguration {
        var configuration = APNSClientConfiguration(
            authentication: .withoutToken,
            environment: .custom(host: host, port: port),
            pool: .init(size: 1, maxOverflow: 0, connectSpacing: .zero),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
        configuration.trust.caPEM = caPEM
        configuration.usePatientLimits()
        return configuration
    }

    /// Sets the time limits that only end tests that have failed, or that would count a pause of the process as a fault of
    /// the server.
    mutating func usePatientLimits() {
        self.timeouts.deadline = Patience.limit
        self.timeouts.drain = Patience.limit
        self.timeouts.connect = .seconds(600)
        self.timeouts.response = .seconds(600)
        self.pool.unavailableAfter = .seconds(600)
        self.silenceWarning = .seconds(600)
        self.adjustConnection = { $0.pathCheck = .patient }
    }

    static func local(_ server: ScriptedServer) -> APNSClientConfiguration {
        .local(port: server.port, caPEM: server.caPEM)
    }

    /// Uses a clock that stands still while the network works in real time. The connection's own timeouts are very
    /// long, so that a step of the clock triggers only the events of the test.
    mutating func use(_ clock: ManualClock) {
        self.clock = clock
        self.timeouts.connect = .seconds(3600)
        self.timeouts.response = .seconds(86_400)
        self.silenceWarning = UnansweredPushes.defaultWarning
        self.adjustConnection = {
            $0.pathCheck.idle = .hours(24)
            $0.pathCheck.busy = .hours(24)
            $0.pathCheck.trust = .hours(24)
        }
    }
}

/// Delivers `count` pushes at once, each to a device token of its own.
func deliver(_ count: Int, with client: APNSClient) async -> [PushOutcome] {
    await withTaskGroup(of: PushOutcome.self) { group in
        for number in 0..<count {
            group.addTask { await client.deliver(samplePush(), to: DeviceToken.sample(number)) }
        }
        return await group.reduce(into: []) { $0.append($1) }
    }
}

/// Runs a server and a client around `body`, and checks that no pushes, leases, connections or streams remain.
func withServer(
    limit: UInt32 = 1000,
    early: Bool = false,
    script: @escaping ScriptedServer.Script = { _ in [.respond(200)] },
    configure: (inout APNSClientConfiguration) -> Void = { _ in },
    _ body: (APNSClient, ScriptedServer) async throws -> Void
) async throws {
    let server = try await ScriptedServer.start(limit: limit, early: early, script: script)
    var configuration = APNSClientConfiguration.local(server)
    configure(&configuration)
    let client = try APNSClient(configuration: configuration)
    try await client.start()
    do {
        try await body(client, server)
    } catch {
        await client.shutdown(within: .zero)
        await server.stop()
        throw error
    }
    await client.shutdown()
    #expect(client.runtime.lifecycle.pushesInFlight == 0)
    #expect(await client.status.pool.leased == 0)
    await server.wait { $0.openConnections == 0 && $0.openStreams == 0 }
    await server.stop()
}

/// As `withSimulatedAPNS`, with a client whose time limits no pause of the process triggers.
func withPatientSimulator<Result: Sendable>(
    simulation: Simulator.Configuration = Simulator.Configuration(),
    configure: (inout APNSClientConfiguration) -> Void = { _ in },
    _ body: (APNSClient, Simulator) async throws -> Result
) async throws -> Result {
    try await withSimulatedAPNS(
        simulation: simulation,
        configure: {
            $0.usePatientLimits()
            configure(&$0)
        },
        body
    )
}

/// Waits for a condition that no event announces. The test fails if it is not met within `Patience.limit`.
func until(
    file: String = #fileID,
    path: String = #filePath,
    line: Int = #line,
    _ isMet: () async throws -> Bool
) async rethrows {
    guard try await !eventually(isMet), !Task.isCancelled else { return }
    let location = SourceLocation(fileID: file, filePath: path, line: line, column: 1)
    Issue.record("the condition is not met after \(Patience.limit)", sourceLocation: location)
}
