import APNSSimulator
import Foundation
import Logging
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Replaces the key in use while pushes continue.
struct ReplaceAuthenticationTests {
    private let push = samplePush()

    /// Runs `body` with a simulator that knows two keys of different teams, and a client with the first key.
    private func withKeys(
        knowsSecond: Bool = true,
        configure: (inout APNSClientConfiguration) -> Void = { _ in },
        _ body: (APNSClient, Simulator, _ first: SimulatedKey, _ second: SimulatedKey) async throws -> Void
    ) async throws {
        let first = SimulatedKey()
        let second = SimulatedKey()
        var simulation = Simulator.Configuration()
        simulation.credential = .keys(knowsSecond ? [.init(first), .init(second)] : [.init(first)])
        simulation.limitsProviderTokenUpdates = true
        let simulator = try await Simulator.start(simulation)
        var configuration = APNSClientConfiguration.local(
            port: simulator.port,
            caPEM: simulator.certificateAuthorityPEM
        )
        configuration.authentication = Self.authentication(first)
        configure(&configuration)
        do {
            try await withAPNSClient(configuration: configuration) { try await body($0, simulator, first, second) }
        } catch {
            await simulator.stop()
            throw error
        }
        await simulator.stop()
    }

    private static func authentication(_ key: SimulatedKey) -> APNSAuthentication {
        .token(privateKeyPEM: key.p8, keyID: key.keyID, teamID: key.teamID)
    }

    /// Sends single pushes while `isWanted` returns true, and returns their outcomes.
    private func traffic(
        _ client: APNSClient,
        tasks: Int = 8,
        while isWanted: @escaping @Sendable () -> Bool
    ) async -> [PushOutcome] {
        await withTaskGroup(of: [PushOutcome].self) { group in
            for task in 0..<tasks {
                group.addTask {
                    var outcomes: [PushOutcome] = []
                    while isWanted() {
                        outcomes.append(
                            await client.deliver(samplePush(), to: DeviceToken.sample(task * 100_000 + outcomes.count))
                        )
                    }
                    return outcomes
                }
            }
            return await group.reduce(into: []) { $0 += $1 }
        }
    }

    @Test func aReplacementUnderLoadLosesNoPushAndMixesNoTeams() async throws {
        try await self.withKeys(configure: { $0.pool = .init(size: 2, maxOverflow: 1, connectSpacing: .zero) }) {
            client,
            simulator,
            _,
            second in
            let flag = Flag()
            async let outcomes = self.traffic(client, while: { !flag.isSet })
            try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsProcessed > 200 }
            try await client.replaceAuthentication(Self.authentication(second))
            #expect(await client.status.authentication.keyID == second.keyID)
            let count = simulator.record.requestsProcessed
            try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsProcessed > count + 200 }
            // The old connections are closed, and the new ones are not more than the pool allows.
            await until { simulator.openConnections <= 3 && client.runtime.credentials.all.count == 1 }
            flag.set()
            let all = await outcomes
            let failed = all.filter { $0.certainty != .accepted }
            #expect(failed.isEmpty, "\(failed.prefix(3))")
            #expect(simulator.record.processedCounts.values.allSatisfy { $0 == 1 })
            // The probe as well.
            #expect(simulator.record.requestsProcessed == all.count + 1)
        }
    }

    @Test func aBulkCallAloneCompletesTheReplacement() async throws {
        try await self.withKeys { client, simulator, _, second in
            let flag = Flag()
            async let summaries = {
                var summaries: [BulkSummary] = []
                while !flag.isSet {
                    summaries.append(await client.sendAll(samplePush(), to: (0..<500).map { DeviceToken.sample($0) }))
                }
                return summaries
            }()
            try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsProcessed > 500 }
            try await client.replaceAuthentication(Self.authentication(second))
            let count = simulator.record.requestsProcessed
            try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsProcessed > count + 1000 }
            flag.set()
            for summary in await summaries { #expect(summary.accepted == 500, "\(summary)") }
        }
    }

    @Test func aRefusedKeyIsNotAdoptedAndFailsNoPush() async throws {
        try await self.withKeys(knowsSecond: false) { client, simulator, first, second in
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            let flag = Flag()
            async let outcomes = self.traffic(client, while: { !flag.isSet })
            let error = await #expect(throws: APNSAuthenticationError.self) {
                try await client.replaceAuthentication(Self.authentication(second))
            }
            #expect(error?.code == .refused)
            #expect(error?.message.contains("InvalidProviderToken") == true, "\(String(describing: error))")
            #expect(error?.message.contains(second.keyID) == true)
            flag.set()
            #expect(await outcomes.allSatisfy { $0.certainty == .accepted })
            #expect(await client.status.authentication.keyID == first.keyID)
            #expect(await client.status.authentication.candidate == nil)
            #expect(simulator.record.pushes.count { $0.status == 403 } == 1)
            await until { client.runtime.credentials.all.count == 1 }
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
        }
    }

    @Test("A client without traffic replaces its key within seconds, by one probe")
    func quietClient() async throws {
        try await self.withKeys { client, simulator, _, second in
            simulator.setToken(String(repeating: "0", count: 64), .bad)
            let call = PushNotification.voip(topic: self.push.topic)
            #expect(await client.deliver(call, to: DeviceToken.sample(1)).certainty == .accepted)
            try await client.replaceAuthentication(Self.authentication(second))
            #expect(await client.status.authentication.keyID == second.keyID)
            // The probe has the app of the last push, and is no push of the client's.
            let probe = try #require(simulator.record.pushes.last)
            #expect(probe.topic == self.push.topic && probe.status == 400 && simulator.record.pushes.count == 2)
            #expect(client.runtime.monitor.pushes.totals.values.reduce(0, +) == 1)
            #expect(await client.deliver(self.push, to: DeviceToken.sample(1)).certainty == .accepted)
        }
    }

    @Test("While APNs is overloaded, the old key stays in use, and the error says so")
    func noVerdict() async throws {
        let clock = ManualClock()
        try await self.withKeys(configure: { $0.use(clock) }) { client, simulator, first, second in
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            simulator.inject(Fault(.respond(.serviceUnavailable), when: .always))
            async let result = APNSAuthenticationError.of {
                try await client.replaceAuthentication(Self.authentication(second), within: .seconds(60))
            }
            await until { simulator.openConnections >= 2 }
            await until {
                clock.advance(by: .milliseconds(500))
                return client.runtime.credentials.candidate == nil
            }
            let error = await result
            #expect(error?.code == .noVerdict, "\(error.map { "\($0)" } ?? "adopted")")
            #expect(error?.message.contains("The old credential stays in use") == true)
            #expect(await client.status.authentication.keyID == first.keyID)
        }
    }

    @Test("A key that APNs accepts, but not for the client's topic, is refused")
    func otherTopic() async throws {
        try await self.withKeys { client, simulator, first, second in
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            simulator.setTopics(["com.example.other"])
            let error = await APNSAuthenticationError.of {
                try await client.replaceAuthentication(Self.authentication(second))
            }
            #expect(error?.code == .refused)
            #expect(error?.message.contains("topic '\(self.push.topic)'") == true, "\(error.map { "\($0)" } ?? "")")
            #expect(await client.status.authentication.keyID == first.keyID)
        }
    }

    @Test("A client that has sent nothing and has no topic replaces its key")
    func unknownTopic() async throws {
        try await self.withKeys { client, simulator, _, second in
            simulator.setTopics(["com.example.other"])
            try await client.replaceAuthentication(Self.authentication(second))
            #expect(await client.status.authentication.keyID == second.keyID)
            #expect(simulator.record.pushes.map(\.topic) == [CredentialProbe.unknownTopic])
        }
    }

    @Test("A VoIP services certificate is probed with its own topic")
    func certificateTopics() throws {
        let app = "com.example.app"
        #expect(CredentialProbe.topic(app: app, certificate: [app, "\(app).voip"]) == app)
        #expect(CredentialProbe.topic(app: app, certificate: ["\(app).voip"]) == "\(app).voip")
        #expect(CredentialProbe.topic(app: app, certificate: ["com.example.other"]) == app)
        #expect(CredentialProbe.topic(app: nil, certificate: ["com.example.other"]) == "com.example.other")
        #expect(CredentialProbe.topic(app: app, certificate: []) == app)
        #expect(try CredentialProbe(topic: "\(app).voip").push.pushType == .voip)
        #expect(try CredentialProbe(topic: app).push.pushType == .background)
    }

    @Test("What a response to the probe means")
    func verdicts() {
        func verdict(_ status: Int, _ reason: String?, topic: String? = "com.example.app") -> CredentialProbe.Verdict {
            let body = reason.map { Array(#"{"reason":"\#($0)"}"#.utf8) } ?? []
            let rejection = Rejection(status: status, body: body)
            let error = PushError(code: .rejected, certainty: .rejected, message: "", rejection: rejection)
            return CredentialProbe.Verdict(.failed(error), topic: topic)
        }
        func isRefused(_ verdict: CredentialProbe.Verdict) -> Bool {
            if case .refused = verdict { true } else { false }
        }
        func isUndecided(_ verdict: CredentialProbe.Verdict) -> Bool {
            if case .undecided = verdict { true } else { false }
        }
        #expect(verdict(400, "BadDeviceToken") == .accepted)
        #expect(isRefused(verdict(403, "InvalidProviderToken")))
        #expect(isRefused(verdict(403, "SomethingNew")))
        #expect(isRefused(verdict(400, "TopicDisallowed")))
        #expect(verdict(400, "TopicDisallowed", topic: nil) == .accepted)
        #expect(isUndecided(verdict(429, "TooManyProviderTokenUpdates")))
        #expect(isUndecided(verdict(503, "ServiceUnavailable")))
        #expect(isUndecided(verdict(502, nil)) && isUndecided(verdict(404, "BadPath")))
        // A proxy's 403, and a wrong clock.
        #expect(isUndecided(verdict(403, nil)) && isUndecided(verdict(403, "ExpiredProviderToken")))
    }

    @Test("Replacing a key with itself or with an earlier key keeps that key's provider token")
    func sameKeyKeepsItsToken() async throws {
        try await self.withKeys { client, simulator, first, second in
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            for key in [first, first, second, first] {
                let error = await APNSAuthenticationError.of {
                    try await client.replaceAuthentication(Self.authentication(key), within: Patience.limit)
                }
                #expect(error == nil, "\(error.map { "\($0)" } ?? "")")
                #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            }
            #expect(await client.status.authentication.keyID == first.keyID)
            #expect(!simulator.record.pushes.contains { $0.status == 429 })
        }
    }

    @Test func aLaterReplacementEndsAnEarlierOne() async throws {
        try await self.withKeys { client, simulator, _, second in
            let third = SimulatedKey()
            simulator.inject(Fault(.stall(), when: .always))
            async let early = APNSAuthenticationError.of {
                try await client.replaceAuthentication(Self.authentication(third), within: nil)
            }
            try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsReceived == 1 }
            simulator.removeFaults()
            #expect(
                await APNSAuthenticationError.of { try await client.replaceAuthentication(Self.authentication(second)) }
                    == nil
            )
            #expect(await early?.code == .superseded)
            #expect(await client.status.authentication.keyID == second.keyID)
        }
    }

    @Test func aRevokedCredentialSendsNothingUntilItIsReplaced() async throws {
        try await self.withKeys { client, simulator, _, second in
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            await client.revokeAuthentication()
            #expect(await client.status.authentication.isRevoked)
            await until { simulator.openConnections == 0 }
            let outcome = await client.deliver(self.push, to: deviceToken)
            #expect(outcome.error?.code == .credential && outcome.certainty == .notSent)
            #expect(outcome.error?.message.contains("revoked") == true)
            let control = BulkControl()
            let bulk = Task {
                let options = BulkOptions(control: control)
                return await client.sendAll(
                    samplePush(),
                    to: (0..<100).map { DeviceToken.sample($0) },
                    options: options
                )
            }
            await until { control.progress.hold?.code == .credential }
            control.stop()
            let summary = await bulk.value
            #expect(summary.notSent == summary.total)
            #expect(simulator.record.connectionsOpened == 1)
            try await client.replaceAuthentication(Self.authentication(second))
            #expect(await !client.status.authentication.isRevoked)
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            // A second revocation changes nothing.
            await client.revokeAuthentication()
            await client.revokeAuthentication()
            #expect(await client.deliver(self.push, to: deviceToken).error?.code == .credential)
        }
    }

    @Test func aPushInFlightDuringARevocationIsUnknown() async throws {
        try await self.withKeys { client, simulator, _, _ in
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            simulator.inject(Fault(.stall(), when: .always))
            async let outcome = client.deliver(self.push, to: deviceToken)
            try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsReceived == 2 }
            await client.revokeAuthentication()
            #expect(await outcome.certainty == .unknown)
        }
    }

    @Test("A revocation also closes the connections of a credential that was replaced and still drains")
    func revocationWhileTheOldCredentialDrains() async throws {
        try await self.withKeys { client, simulator, _, second in
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            simulator.inject(Fault(.stall(), when: .always))
            let outcome = Task { await client.deliver(samplePush(), to: deviceToken) }
            try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsReceived == 2 }
            simulator.removeFaults()
            try await client.replaceAuthentication(Self.authentication(second))
            #expect(client.runtime.credentials.all.count == 2)
            #expect(await ends { await client.revokeAuthentication() })
            #expect(await ends { _ = await outcome.value })
            #expect(await outcome.value.certainty == .unknown)
            #expect(client.runtime.credentials.all.isEmpty)
            await until { simulator.openConnections == 0 }
        }
    }

    /// A signer that is a value. Two of them are equal if they have the same key.
    private struct ValueSigner: APNSTokenSigner, Equatable {
        let key: SimulatedKey
        static func == (one: ValueSigner, other: ValueSigner) -> Bool { one.key.keyID == other.key.keyID }
        func signature(for bytes: [UInt8]) async throws -> [UInt8] { try self.key.signature(for: bytes) }
    }

    /// A signer that cannot be compared.
    private struct PlainSigner: APNSTokenSigner {
        let key: SimulatedKey
        func signature(for bytes: [UInt8]) async throws -> [UInt8] { try self.key.signature(for: bytes) }
    }

    private final class ObjectSigner: APNSTokenSigner {
        let key: SimulatedKey
        init(_ key: SimulatedKey) { self.key = key }
        func signature(for bytes: [UInt8]) async throws -> [UInt8] { try self.key.signature(for: bytes) }
    }

    @Test("Giving the signer in use again keeps its provider token", arguments: ["object", "equal", "copy"])
    func sameSignerKeepsItsToken(_ kind: String) async throws {
        let key = SimulatedKey()
        let object = ObjectSigner(key)
        func signer() -> any APNSTokenSigner {
            switch kind {
            case "object": object
            case "equal": ValueSigner(key: key)
            default: PlainSigner(key: key)
            }
        }
        func make() -> APNSAuthentication { .token(signer: signer(), keyID: key.keyID, teamID: key.teamID) }
        let first = make()
        try await self.withKeys { client, simulator, _, _ in
            simulator.addKey(key)
            for _ in 0..<3 {
                // Signers that cannot be compared are the same only in copies of one authentication.
                let again = kind == "copy" ? first : make()
                #expect(await APNSAuthenticationError.of { try await client.replaceAuthentication(again) } == nil)
                #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            }
            #expect(!simulator.record.pushes.contains { $0.status == 429 })
            #expect(client.runtime.credentials.latest.tokens.status.generation == 1)
        }
    }

    @Test func aNewKeyEndsTheFaultOfTheOldKey() async throws {
        try await self.withKeys { client, simulator, first, second in
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            simulator.removeKey(keyID: first.keyID)
            // One refusal on the connection that worked, then two on fresh connections.
            for _ in 0..<3 { _ = await client.deliver(self.push, to: deviceToken) }
            #expect(await client.status.hasCredentialFault)
            try await client.replaceAuthentication(Self.authentication(second))
            #expect(await !client.status.hasCredentialFault)
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
        }
    }

    @Test func aReplacementSucceedsBeforeTheStartAndFailsAfterTheEnd() async throws {
        let simulator = try await Simulator.start()
        var configuration = APNSClientConfiguration.local(
            port: simulator.port,
            caPEM: simulator.certificateAuthorityPEM
        )
        configuration.authentication = Self.authentication(SimulatedKey())
        let second = SimulatedKey()
        let client = try APNSClient(configuration: configuration)
        try await client.replaceAuthentication(Self.authentication(second))
        #expect(await client.status.authentication.keyID == second.keyID)
        try await client.start()
        #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
        await client.shutdown()
        #expect(
            await APNSAuthenticationError.of { try await client.replaceAuthentication(Self.authentication(second)) }?
                .code
                == .clientStopped
        )
        await simulator.stop()
    }

    @Test func aClientRevokedBeforeItsStartSendsAfterAReplacement() async throws {
        let simulator = try await Simulator.start()
        var configuration = APNSClientConfiguration.local(
            port: simulator.port,
            caPEM: simulator.certificateAuthorityPEM
        )
        configuration.authentication = Self.authentication(SimulatedKey())
        let client = try APNSClient(configuration: configuration)
        await client.revokeAuthentication()
        try await client.start()
        #expect(await client.deliver(self.push, to: deviceToken).error?.code == .credential)
        #expect(simulator.record.connectionsOpened == 0)
        try await client.replaceAuthentication(Self.authentication(SimulatedKey()))
        #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
        await client.shutdown()
        await simulator.stop()
    }

    @Test func aShutdownEndsAReplacement() async throws {
        try await self.withKeys { client, simulator, _, second in
            simulator.inject(Fault(.stall(), when: .always))
            async let result = APNSAuthenticationError.of {
                try await client.replaceAuthentication(Self.authentication(second), within: nil)
            }
            await until { client.runtime.credentials.candidate != nil }
            await client.shutdown()
            #expect(await result?.code == .clientStopped)
        }
    }

    @Test("The refusal of a candidate's certificate is the result of the call, and no fault of the one in use")
    func refusedCertificate() async throws {
        let (logger, lines) = RecordingLog.make()
        var simulation = Simulator.Configuration()
        simulation.credential = .clientCertificate
        let simulator = try await Simulator.start(simulation)
        func authentication(_ certificate: SimulatedCertificate) -> APNSAuthentication {
            .certificate(certificatePEM: certificate.certificatePEM, privateKeyPEM: certificate.privateKeyPEM)
        }
        var configuration = APNSClientConfiguration.local(
            port: simulator.port,
            caPEM: simulator.certificateAuthorityPEM
        )
        configuration.authentication = authentication(try simulator.makeClientCertificate())
        configuration.logger = logger
        try await withAPNSClient(configuration: configuration) { client in
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            simulator.inject(Fault(.clientCertificate(.revoked), when: .connections(times: nil)))
            let second = try simulator.makeClientCertificate()
            let error = await APNSAuthenticationError.of {
                try await client.replaceAuthentication(authentication(second))
            }
            #expect(
                error?.code == .refused && error?.message.contains("revoked") == true,
                "\(String(describing: error))"
            )
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
        }
        #expect(lines.count(.critical, containing: "") == 0)
        await simulator.stop()
    }

    @Test("A probe without a time limit ends with its client")
    func probeDuringShutdown() async throws {
        let clock = ManualClock()
        try await self.withKeys(configure: { $0.use(clock) }) { client, simulator, _, _ in
            simulator.inject(Fault(.respond(.serviceUnavailable), when: .always))
            let verdict = Task { await client.runtime.probeCurrent(topic: "com.example.app", until: .distantFuture) }
            await until { simulator.record.requestsReceived > 0 }
            #expect(await ends(advancing: clock) { await client.shutdown(within: .seconds(5)) })
            #expect(await ends(advancing: clock) { _ = await verdict.value })
            verdict.cancel()
            guard case .undecided = await verdict.value else {
                Issue.record("a client that shuts down has a verdict")
                return
            }
        }
    }
}

/// A flag that one task sets and others read.
private final class Flag: Sendable {
    private let value = Atomic<Bool>(false)
    var isSet: Bool { self.value.load(ordering: .relaxed) }
    func set() { self.value.store(true, ordering: .relaxed) }
}
