import APNSSimulator
import Logging
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The states that determine a client's health, one line each, and their precedence.
struct HealthTableTests {
    struct Line: Sendable, CustomTestStringConvertible {
        var name: String
        var cause: APNSHealth.Cause.Code?
        var change: @Sendable (inout HealthInputs) -> Void

        init(
            _ name: String,
            _ cause: APNSHealth.Cause.Code? = nil,
            _ change: @escaping @Sendable (inout HealthInputs) -> Void
        ) {
            self.name = name
            self.cause = cause
            self.change = change
        }

        var testDescription: String { "\(self.name) \(self.cause?.rawValue ?? "")" }
    }

    /// The states in the order of precedence, highest first.
    static let lines = [
        Line("stopped") { $0.lifecycle = .stopped },
        Line("starting") { $0.lifecycle = .notStarted },
        Line("failing", .internalFault) { $0.isPaused = true },
        Line("failing", .credential) { $0.isRevoked = true },
        Line("failing", .credential) { $0.credentialFault = "InvalidProviderToken" },
        Line("failing", .credential) {
            $0.signingFailure = .tooSlow
            $0.lacksProviderToken = true
        },
        Line("starting") { $0.waitsForToken = true },
        Line("failing", .configuration) {
            $0.configurationFault = "no such host"
            $0.connections = .connecting
        },
        Line("failing", .unreachable) { $0.connections = .unavailable("refused") },
        Line("starting") {
            $0.connections = .connecting
            $0.hasConnected = false
        },
        Line("degraded", .credential) {
            $0.connections = .connecting
            $0.suspectedRefusal = "InvalidProviderToken"
        },
        Line("degraded", .reconnecting) { $0.connections = .connecting },
        Line("degraded", .suspectedMisconfiguration) { $0.suspectsMisconfiguration = true },
        Line("degraded", .credential) {
            $0.signingFailure = .tooSlow
            $0.lacksProviderToken = false
        },
        Line("degraded", .overload) { $0.degradedConnections = 1 },
        Line("serving") { _ in },
    ]

    @Test(arguments: lines.indices) func eachStateAloneHasItsHealth(_ index: Int) {
        let line = Self.lines[index]
        var inputs = HealthInputs()
        line.change(&inputs)
        let health = APNSHealth(inputs)
        #expect(health.name == line.name && health.cause?.code == line.cause, "\(health)")
        #expect(health.isReady == ["serving", "degraded"].contains(line.name))
    }

    @Test(arguments: lines.indices) func eachStateOverridesTheFollowingOnes(_ index: Int) {
        let line = Self.lines[index]
        for other in Self.lines[index...] {
            var inputs = HealthInputs()
            other.change(&inputs)
            line.change(&inputs)
            let health = APNSHealth(inputs)
            #expect(health.name == line.name && health.cause?.code == line.cause, "\(health), with \(other.name)")
        }
    }

    @Test func messagesContainTheCause() {
        var inputs = HealthInputs()
        inputs.connections = .unavailable("connection refused")
        #expect("\(APNSHealth(inputs))".contains("connection refused"))
        inputs.connections = .unavailable(nil)
        #expect("\(APNSHealth(inputs))" == "failing (unreachable: no connection to APNs for a while)")
        inputs.credentialFault = "BadCertificate: x"
        #expect("\(APNSHealth(inputs))".contains("BadCertificate: x"))
        inputs.lifecycle = .draining
        #expect(APNSHealth(inputs) == .stopped)
    }

    @Test("A suspected refusal is named while the client connects, and ignored while a connection is ready")
    func suspectedRefusal() {
        var inputs = HealthInputs()
        inputs.suspectedRefusal = "InvalidProviderToken"
        #expect(APNSHealth(inputs) == .serving)
        inputs.connections = .connecting
        #expect("\(APNSHealth(inputs))".contains("InvalidProviderToken"))
    }

    @Test func aPastConfigurationFaultIsIgnored() {
        var inputs = HealthInputs()
        inputs.configurationFault = "no such host"
        #expect(APNSHealth(inputs) == .serving)
    }
}

/// A client's health over sockets.
struct HealthTests {
    private func authentication() -> APNSAuthentication {
        .token(privateKeyPEM: KeyTexts.p256, keyID: "9UC9ZLQ8YW", teamID: "ABBM6U9RM5")
    }

    /// The health values that the client publishes, up to the first that meets the condition.
    private func read(
        _ changes: EventStream<APNSHealth>,
        until isMet: (APNSHealth) -> Bool
    ) async -> [APNSHealth] {
        var seen: [APNSHealth] = []
        for await health in changes {
            seen.append(health)
            if isMet(health) { break }
        }
        return seen
    }

    @Test func aClientIsStartingThenServingThenStopped() async throws {
        let server = try await ScriptedServer.start()
        let client = try APNSClient(configuration: .local(server))
        #expect(await client.health == .starting)
        let changes = client.healthChanges
        try await client.start()
        #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
        #expect(await client.health == .serving)
        #expect(await read(changes) { $0 == .serving } == [.serving])
        await client.shutdown()
        #expect(await client.health == .stopped)
        #expect(await read(changes) { _ in false } == [.stopped])
        await server.stop()
    }

    @Test func aClientThatNeverRanEndsItsChanges() async throws {
        let client = try APNSClient.unstarted()
        let changes = client.healthChanges
        await client.shutdown()
        #expect(await read(changes) { _ in false } == [.stopped])
    }

    @Test func aLazyPoolServesWithoutAConnection() async throws {
        try await withServer(configure: { $0.pool = .init(size: 0, maxOverflow: 1) }) { client, server in
            #expect(await client.health == .serving)
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            #expect(await client.health == .serving)
        }
    }

    @Test func lostConnectionsDegradeAndThenFailTheHealth() async throws {
        let clock = ManualClock()
        let closed = try #require(ClosedPort())
        let network = AddressSwitch(closed.number)
        try await withPatientSimulator(configure: {
            $0.use(clock)
            $0.pool = .init(size: 1, maxOverflow: 0, connectSpacing: .zero)
            $0.logger.logLevel = .critical
            network.point(to: $0.environment.port)
            network.apply(to: &$0)
        }) { client, simulator in
            let changes = client.healthChanges
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            network.point(to: closed.number)
            await simulator.dropConnections()
            let lost = await read(changes) { $0.cause?.code == .reconnecting }
            #expect(lost.last?.name == "degraded" && lost.allSatisfy { $0.isReady }, "\(lost)")
            #expect(await client.health.cause?.code == .reconnecting)
            clock.advance(by: .seconds(10))
            let seen = await read(changes) { $0.cause?.code == .unreachable }
            #expect(seen.map(\.name) == ["failing"], "\(seen)")
            #expect(await client.health.cause?.code == .unreachable)
            #expect(await !client.health.isReady)

            network.point(to: simulator.port)
            // The reconnects use the same clock.
            await until {
                clock.advance(by: .milliseconds(100))
                return await client.health == .serving
            }
            #expect(await read(changes) { $0 == .serving }.last == .serving)
        }
    }

    @Test func manyResponses503DegradeTheHealth() async throws {
        // Every fourth response succeeds, so that the connection itself is not considered faulty.
        let script: ScriptedServer.Script = { push in
            push.number % 4 == 0 ? [.respond(200)] : [.respond(503, reason: "ServiceUnavailable")]
        }
        try await withServer(limit: 10, script: script) { client, server in
            let changes = client.healthChanges
            let sending = Task {
                while !Task.isCancelled { _ = await deliver(20, with: client) }
            }
            let seen = await read(changes) { $0.cause?.code == .overload }
            #expect(seen.last?.name == "degraded", "\(seen)")
            server.follow { _ in [.respond(200)] }
            #expect(await read(changes) { $0 == .serving }.last == .serving)
            sending.cancel()
            await sending.value
        }
    }

    @Test func aRefusedKeyFailsTheHealthUntilItIsAccepted() async throws {
        let clock = ManualClock()
        try await withServer(
            script: { _ in [.respond(403, reason: "InvalidProviderToken")] },
            configure: {
                $0.use(clock)
                $0.authentication = authentication()
            }
        ) { client, server in
            let changes = client.healthChanges
            for _ in 1...2 { #expect(await client.deliver(samplePush(), to: deviceToken).status == 403) }
            #expect(await client.health.cause?.code == .credential)
            let seen = await read(changes) { $0.cause?.code == .credential }
            #expect(seen.last?.cause?.message.contains("InvalidProviderToken") == true, "\(seen)")
            server.follow { _ in [.respond(200)] }
            clock.advance(by: .seconds(5))
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            #expect(await read(changes) { $0 == .serving }.last == .serving)
        }
    }

    @Test func aRevokedKeyFailsTheHealth() async throws {
        try await withServer(configure: { $0.authentication = authentication() }) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let changes = client.healthChanges
            await client.revokeAuthentication()
            #expect(await read(changes) { $0.cause?.code == .credential }.last?.name == "failing")
        }
    }
}
