import APNSModel
import Synchronization
import TestSupport
import Testing

@testable import APNSSimulator
@testable import APNSTransport

/// Faults before the first byte of HTTP/2, and faults of TLS and TCP that end a connection.
struct ConnectFaultTests {
    private let jwt: String

    init() throws { self.jwt = try SimulatedKey().providerToken(issuedAt: Sample.now) }

    private func start(_ faults: [Fault]) async throws -> Simulator {
        var configuration = Simulator.Configuration()
        configuration.initialMaxConcurrentStreams = 1000
        configuration.faults = FaultScript(faults)
        return try await Simulator.start(configuration)
    }

    /// The error with which an attempt of this library's client ends.
    private func attempt(_ simulator: Simulator) async throws -> WireError.Code? {
        let client = try WireClient(simulator)
        if await client.open() {
            await client.close()
            return nil
        }
        return await client.closed()?.code
    }

    @Test(arguments: [
        (TLSFault.Certificate.otherHost, WireError.Code.certificateForOtherHost),
        (.expired, .certificateExpired), (.notYetValid, .certificateNotYetValid),
        (.untrusted, .certificateUntrusted),
    ])
    func wrongCertificatesFailTheConnection(certificate: TLSFault.Certificate, code: WireError.Code) async throws {
        let simulator = try await self.start([Fault(.certificate(certificate), when: .connections(from: 2, times: 2))])
        #expect(try await self.attempt(simulator) == nil)
        #expect(try await self.attempt(simulator) == code)
        #expect(try await self.attempt(simulator) == code)
        #expect(try await self.attempt(simulator) == nil)
        #expect(simulator.faultCounts == ["tls": 2])
        await simulator.stop()
    }

    @Test(arguments: TLSFault.ALPN.allCases) func onlyH2IsAccepted(alpn: TLSFault.ALPN) async throws {
        let simulator = try await self.start([Fault(.alpn(alpn))])
        #expect(try await self.attempt(simulator) == (alpn == .h2 ? nil : .noHTTP2))
        await simulator.stop()
    }

    @Test func aServerMayOfferOnlyTLS12() async throws {
        var tls = TLSFault()
        tls.versions = .tls12
        let simulator = try await self.start([Fault(.tls(tls), when: .connections(times: nil))])
        let old = try await RawClient.connect(simulator, maximumVersion: .tls12)
        #expect(try await old.wait { $0.isOpen })
        #expect(try await self.attempt(simulator) == nil)
        await old.close()
        await simulator.stop()
    }

    @Test func aServerMayOfferOnlyTLS13() async throws {
        var tls = TLSFault()
        tls.versions = .tls13
        let simulator = try await self.start([Fault(.tls(tls), when: .connections(times: nil))])
        let old = try await RawClient.connect(simulator, maximumVersion: .tls12)
        guard case .tls(let code, _) = try await old.waitForEnd() else {
            Issue.record("TLS 1.2 was accepted")
            return
        }
        #expect(code == .handshakeFailed)
        await simulator.stop()
    }

    @Test(arguments: [40, 42, 45, 48, 80] as [UInt8]) func handshakesAreRefused(alert: UInt8) async throws {
        let simulator = try await self.start([Fault(.handshakeAlert(alert))])
        let client = try await RawClient.connect(simulator)
        guard case .tls(let code, let message) = try await client.waitForEnd() else {
            Issue.record("no alert was received")
            return
        }
        let isCertificate = (42...48).contains(alert)
        #expect(code == (isCertificate ? .clientCertificateRefused : .handshakeFailed), "\(message)")
        #expect(client.state.withLock { !$0.isOpen })
        await simulator.stop()
    }

    @Test(
        "A refused certificate: in TLS 1.3 the client's handshake succeeds, and the alert arrives with its first read",
        arguments: [
            (TLSFault.CertificateRefusal.bad, "bad certificate"), (.revoked, "certificate revoked"),
            (.expired, "certificate expired"), (.unknownCA, "unknown ca"),
        ],
        [TLSConfiguration.Version.tls12, .tls13]
    )
    func certificatesAreRefused(
        refusal: (TLSFault.CertificateRefusal, text: String),
        version: TLSConfiguration.Version
    ) async throws {
        let simulator = try await self.start([Fault(.clientCertificate(refusal.0), when: .connections(times: 2))])
        let identity = try simulator.makeClientCertificate()
        let client = try await RawClient.connect(simulator, maximumVersion: version, certificate: identity)
        let end = try await client.waitForEnd()
        guard case .tls(.clientCertificateRefused, let message) = end else {
            Issue.record("\(String(describing: end))")
            return
        }
        #expect(message.contains(refusal.text))
        #expect(client.state.withLock { $0.isOpen == (version == .tls13) && $0.received == 0 })
        let own = try WireClient(simulator, certificate: identity)
        #expect(await own.open() == false)
        #expect(await own.closed()?.code == .clientCertificateRefused)
        try await simulator.waitUntil(timeout: Patience.limit) { $0.connectionsFailed == 2 }
        #expect(simulator.record.failedConnections.map(\.cause) == [.certificateRefused])
        #expect(try await self.attempt(simulator) == nil)
        await simulator.stop()
    }

    @Test("A server that asks for certificates refuses only clients without one")
    func certificatesAreRequired() async throws {
        let simulator = try await self.start([Fault(.clientCertificate(.missing), when: .connections(times: nil))])
        let client = try await RawClient.connect(simulator)
        let end = try await client.waitForEnd()
        guard case .tls(.clientCertificateRefused, let message) = end else {
            Issue.record("\(String(describing: end))")
            return
        }
        #expect(message.contains("certificate required"))
        #expect(try await self.attempt(simulator) == .clientCertificateRefused)
        let own = try WireClient(simulator, certificate: try simulator.makeClientCertificate())
        #expect(await own.open())
        await own.close()
        await simulator.stop()
    }

    @Test(arguments: [(ConnectionEnding.fin, RawClient.End.fin), (.rst, .rst)])
    func connectionsAreClosedAtOnce(ending: ConnectionEnding, end: RawClient.End) async throws {
        let simulator = try await self.start([Fault(.closeOnAccept(ending))])
        // The reset may arrive before `connect` returns.
        if let client = try? await RawClient.connect(simulator, isMute: true) {
            #expect(try await client.waitForEnd() == end)
        }
        try await simulator.waitUntil(timeout: Patience.limit) { $0.connectionsClosed == 1 }
        #expect(try await self.attempt(simulator) == nil)
        await simulator.stop()
    }

    /// Checks that the next connection receives nothing. This takes real time, which a test clock cannot shorten, since
    /// the sockets of the other side are silent.
    private func expectSilence(_ simulator: Simulator) async throws {
        let client = try await RawClient.connect(simulator)
        try await Task.sleep(for: .milliseconds(50))
        #expect(client.state.withLock { !$0.isOpen && $0.end == nil })
        await client.close()
    }

    @Test func aSilentServerMaySpeakLater() async throws {
        let simulator = try await self.start([
            Fault(.neverSpeak(for: .milliseconds(80))), Fault(.neverSpeak(), when: .connections(from: 2)),
        ])
        let clock = ContinuousClock()
        let start = clock.now
        let client = try await RawClient.connect(simulator)
        #expect(try await client.wait { $0.isOpen })
        #expect(start.duration(to: clock.now) >= .milliseconds(80))
        try await self.expectSilence(simulator)
        await client.close()
        await simulator.stop()
    }

    @Test func aStalledHandshakeContinues() async throws {
        let simulator = try await self.start([
            Fault(.handshakeStall(afterBytes: 60, for: .milliseconds(80))),
            Fault(.handshakeStall(), when: .connections(from: 2)),
        ])
        let clock = ContinuousClock()
        let start = clock.now
        let client = try await RawClient.connect(simulator)
        client.start()
        client.push(1, jwt: self.jwt)
        #expect(try await client.frame { $0.type == 1 } != nil)
        #expect(start.duration(to: clock.now) >= .milliseconds(80))
        try await self.expectSilence(simulator)
        await client.close()
        await simulator.stop()
    }

    @Test func theListenerStopsAndRestarts() async throws {
        let simulator = try await self.start([])
        let client = try WireClient(simulator)
        #expect(await client.open())
        // If this process pauses, every attempt may miss the outage. Then the next one is longer.
        var isRefused = false
        var outage = Duration.milliseconds(100)
        for _ in 0..<10 where !isRefused {
            simulator.inject(Fault(.listenerDown(outage), when: .next))
            #expect(await client.send(1, jwt: self.jwt).map(\.status) == [200])
            let end = ContinuousClock.now.advanced(by: outage)
            repeat { isRefused = try await self.attempt(simulator) == .connectRefused } while !isRefused && .now < end
            outage *= 2
        }
        #expect(isRefused)
        // The open connection stays usable.
        #expect(await client.send(1, jwt: self.jwt).map(\.status) == [200])
        #expect(try await eventually { try await self.attempt(simulator) == nil })
        await simulator.stop()
    }

    @Test func theListenerStopsAndStartsOnRequest() async throws {
        let simulator = try await self.start([])
        await simulator.stopListening()
        #expect(try await self.attempt(simulator) == .connectRefused)
        await simulator.startListening()
        #expect(try await self.attempt(simulator) == nil)
        await simulator.stopListening()
        await simulator.stop()
        await simulator.startListening()
        // Another test's simulator may have the port by now. Its certificate comes from an authority of its own.
        let code = try await self.attempt(simulator)
        #expect(code == .connectRefused || code == .certificateUntrusted)
    }

    @Test func faultsAreTriggeredByTime() async throws {
        let simulator = try await self.start([
            Fault(.pingFlood(3), when: .at(.milliseconds(30), every: .milliseconds(20), times: 3)),
            // Repeated, because the client may connect later than the first time.
            Fault(.goAway(reason: "Shutdown"), when: .at(.milliseconds(150), every: .milliseconds(50), times: nil)),
        ])
        let client = try await RawClient.connect(simulator)
        client.start()
        let goAway = try await client.frame { $0.type == 7 }
        #expect(goAway != nil)
        // An idle connection closes after its GOAWAY.
        #expect(try await client.waitForEnd() != nil)
        let counts = simulator.faultCounts
        #expect((counts["goaway"] ?? 0) > 0 && (1...3).contains(counts["ping-flood"] ?? 0))
        // A flood may run before the client connects.
        let pings = client.frames.count { $0.type == 6 }
        #expect(pings % 3 == 0 && pings <= 3 * (counts["ping-flood"] ?? 0))
        await simulator.stop()
    }

    @Test func effectsApplyOnDemand() async throws {
        let simulator = try await self.start([])
        let clients = [try await RawClient.connect(simulator), try await RawClient.connect(simulator)]
        for client in clients {
            client.start()
            #expect(try await client.frame { $0.isSettings } != nil)
        }
        #expect(await simulator.apply(.pingFlood(2), to: .number(2)) == 1)
        #expect(try await clients[1].wait { state in state.frames.count { $0.type == 6 } == 2 })
        #expect(await simulator.apply(.dropConnection(.rst)) == 2)
        #expect(try await clients[0].waitForEnd() == .rst)
        #expect(clients[0].frames.allSatisfy { $0.type != 6 })
        #expect(await simulator.apply(.refuse) == 0)
        await simulator.stop()
    }

    @Test func theClockMayBeSkewed() async throws {
        var configuration = Simulator.Configuration()
        configuration.initialMaxConcurrentStreams = 1000
        configuration.clock = { 784_111_777 }
        configuration.credential = .none
        configuration.clockOffset = 3600
        configuration.faults = FaultScript([Fault(.clock(offsetSeconds: -37), when: .nth(2))])
        let simulator = try await Simulator.start(configuration)
        let client = try WireClient(simulator)
        #expect(await client.open())
        var dates: [String?] = []
        for _ in 0..<3 { dates.append(await client.send(1, jwt: nil).first?.fields.first("date")) }
        #expect(dates.first == "Sun, 06 Nov 1994 09:49:37 GMT")
        #expect(dates.last == "Sun, 06 Nov 1994 08:49:00 GMT")
        simulator.setClockOffset(seconds: 0)
        #expect(await client.send(1, jwt: nil).first?.fields.first("date") == "Sun, 06 Nov 1994 08:49:37 GMT")
        await simulator.stop()
    }

    @Test func aSkewedClockRefusesGoodTokens() async throws {
        let simulator = try await self.start([])
        let client = try WireClient(simulator)
        #expect(await client.open())
        simulator.setClockOffset(seconds: 7200)
        let result = await client.send(1, jwt: self.jwt).first
        #expect(result.map { String(decoding: $0.body, as: UTF8.self) } == #"{"reason":"ExpiredProviderToken"}"#)
        simulator.setClockOffset(seconds: 0)
        #expect(await client.send(1, jwt: self.jwt).first?.status == 200)
        await simulator.stop()
    }

    @Test func theDateMayBeOmitted() async throws {
        var configuration = Simulator.Configuration()
        configuration.sendsDate = false
        let simulator = try await Simulator.start(configuration)
        let client = try WireClient(simulator)
        #expect(await client.open())
        #expect(await client.send(1, jwt: self.jwt).first.map { $0.fields.first("date") == nil } == true)
        await simulator.stop()
    }
}
