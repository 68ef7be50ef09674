import APNSSimulator
import APNSTesting
import Foundation
import APNSTransport
import Logging
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Client certificates, from the file to APNs' response.
struct CertificateTests {
    private let push = samplePush()

    private static var simulation: Simulator.Configuration {
        var simulation = Simulator.Configuration()
        simulation.credential = .clientCertificate
        return simulation
    }

    /// Runs `body` with a simulator that requires a certificate, and a client with the result of `authentication`.
    private func withClient(
        simulation: Simulator.Configuration = Self.simulation,
        logger: Logger? = nil,
        _ authentication: (Simulator) throws -> APNSAuthentication,
        _ body: (APNSClient, Simulator) async throws -> Void
    ) async throws {
        let simulator = try await Simulator.start(simulation)
        var configuration = APNSClientConfiguration.local(
            port: simulator.port,
            caPEM: simulator.certificateAuthorityPEM
        )
        configuration.authentication = try authentication(simulator)
        if let logger { configuration.logger = logger }
        do {
            try await withAPNSClient(configuration: configuration) { try await body($0, simulator) }
        } catch {
            await simulator.stop()
            throw error
        }
        await simulator.stop()
    }

    @Test func aPushWithACertificateIsAcceptedWithoutAToken() async throws {
        try await self.withClient {
            let made = try $0.makeClientCertificate(topics: ["com.example.app", "com.example.app.voip"])
            return .certificate(certificatePEM: made.certificatePEM, privateKeyPEM: made.privateKeyPEM)
        } _: { client, simulator in
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
            #expect(await client.sendAll(self.push, to: (0..<200).map { DeviceToken.sample($0) }).accepted == 200)
            #expect(simulator.record.requestsProcessed == 201)
            let status = await client.status.authentication
            #expect(status.certificateTopics == ["com.example.app", "com.example.app.voip"])
            #expect(status.keyID == nil && !status.isRevoked && status.candidate == nil)
            let expiry = try #require(status.certificateExpiry)
            #expect(abs(expiry - Int64(Date().timeIntervalSince1970) - 365 * 86_400) < 100)
        }
    }

    @Test("A VoIP Services certificate is checked with its own topic")
    func checkOfVoIP() async throws {
        try await self.withClient {
            let made = try $0.makeClientCertificate(topics: ["com.example.app.voip"])
            return .certificate(certificatePEM: made.certificatePEM, privateKeyPEM: made.privateKeyPEM)
        } _: { client, simulator in
            let check = await client.check(topic: "com.example.app", within: Patience.limit)
            #expect(check.isOK && check.description.contains("com.example.app.voip"), "\(check)")
            #expect(simulator.record.pushes.map(\.topic) == ["com.example.app.voip"])
        }
    }

    @Test func aPKCS12FileIsAcceptedAsACertificate() async throws {
        try await self.withClient {
            .certificate(pkcs12Bytes: try $0.makeClientCertificate().pkcs12(passphrase: "x"), passphrase: "x")
        } _: { client, _ in
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
        }
    }

    @Test func theErrorContainsTheAlertForAnUnknownCA() async throws {
        let otherSimulator = try await Simulator.start()
        let (logger, lines) = RecordingLog.make()
        try await self.withClient(logger: logger) { _ in
            let made = try otherSimulator.makeClientCertificate()
            return .certificate(certificatePEM: made.certificatePEM, privateKeyPEM: made.privateKeyPEM)
        } _: { client, simulator in
            let outcome = await client.deliver(self.push, to: deviceToken)
            #expect(outcome.certainty == .notSent && outcome.error?.code == .credential)
            let message = outcome.error?.message ?? ""
            #expect(message.contains("unknown ca"), "\(message)")
            #expect(simulator.record.requestsReceived == 0)
            // After the client has declared the fault it does not keep reconnecting.
            #expect(simulator.record.connectionsOpened <= 3)
            #expect(await client.status.hasCredentialFault)
            let next = await client.deliver(self.push, to: deviceToken)
            #expect(next.error?.code == .credential)
            #expect(next.error?.message.contains("unknown ca") == true, "\(next)")
            #expect(next.error?.message.contains("Apple Push Services: com.example.app") == true, "\(next)")
        }
        await otherSimulator.stop()
        #expect(lines.count(.critical, containing: "refuses the credential") == 1)
    }

    @Test func theErrorSaysThatACertificateIsRequired() async throws {
        try await self.withClient { _ in
            .withoutToken
        } _: { client, _ in
            let outcome = await client.deliver(self.push, to: deviceToken)
            #expect(outcome.error?.code == .credential)
            #expect(outcome.error?.message.contains("certificate required") == true, "\(outcome)")
        }
    }

    @Test func theErrorContainsTheGOAWAYReason() async throws {
        var simulation = Self.simulation
        simulation.faults = FaultScript([
            Fault(
                .goAway(.beforeThisRequest, reason: "BadCertificateEnvironment"),
                when: FaultTrigger(event: .open, times: nil)
            )
        ])
        try await self.withClient(simulation: simulation) {
            let made = try $0.makeClientCertificate()
            return .certificate(certificatePEM: made.certificatePEM, privateKeyPEM: made.privateKeyPEM)
        } _: { client, simulator in
            let outcome = await client.deliver(self.push, to: deviceToken)
            #expect(outcome.canResend && outcome.error?.code == .credential, "\(outcome)")
            #expect(outcome.error?.message.contains("BadCertificateEnvironment") == true, "\(outcome)")
            #expect(simulator.record.connectionsOpened <= 3)
        }
    }

    // MARK: Before connecting

    /// Returns the error of the client's initializer. Nothing listens on the configured port.
    private func error(_ authentication: APNSAuthentication) throws -> APNSConfigurationError {
        var configuration = APNSClientConfiguration.local(port: 1, caPEM: nil)
        configuration.authentication = authentication
        return try #require(throws: APNSConfigurationError.self) { try APNSClient(configuration: configuration) }
    }

    @Test func unusableCertificatesAreRefusedBeforeConnecting() async throws {
        let simulator = try await Simulator.start()
        let good = try simulator.makeClientCertificate()
        let other = try simulator.makeClientCertificate()
        let expired = try simulator.makeClientCertificate(validFrom: -200_000, validTo: -100_000)
        let future = try simulator.makeClientCertificate(validFrom: 100_000, validTo: 200_000)
        await simulator.stop()
        func pem(_ certificate: SimulatedCertificate, key: SimulatedCertificate? = nil) -> APNSAuthentication {
            .certificate(
                certificatePEM: certificate.certificatePEM,
                privateKeyPEM: (key ?? certificate).privateKeyPEM
            )
        }
        #expect(try self.error(pem(expired)).code == .certificateExpired)
        #expect(try self.error(pem(future)).code == .certificateNotYetValid)
        #expect(try self.error(pem(good, key: other)).code == .keyMismatch)
        let file = try good.pkcs12(passphrase: "right")
        let wrong = try self.error(.certificate(pkcs12Bytes: file, passphrase: "wrong"))
        #expect(wrong.code == .passphraseWrong && wrong.setting == "authentication.passphrase")
        #expect(
            try self.error(.certificate(certificateBytes: file, privateKeyBytes: file)).message
                .contains("PKCS#12")
        )
        let missing = try self.error(.certificate(certificateFile: "/nowhere/apns.pem"))
        #expect(missing.code == .fileUnreadable && missing.setting == "authentication.certificateFile")
        let encrypted = try self.error(
            .certificate(certificatePEM: good.certificatePEM, privateKeyPEM: KeyTexts.encrypted)
        )
        #expect(encrypted.code == .keyEncrypted)
    }

    @Test(arguments: [#"\n"#, " ", "base64"])
    func aCertificateIsReadFromEnvironmentVariableText(_ form: String) async throws {
        let simulator = try await Simulator.start()
        let made = try simulator.makeClientCertificate()
        await simulator.stop()
        func mangled(_ text: String) -> String {
            form == "base64" ? Data(text.utf8).base64EncodedString() : text.replacingOccurrences(of: "\n", with: form)
        }
        let authentication = APNSAuthentication.certificate(
            certificatePEM: mangled(made.certificatePEM),
            privateKeyPEM: mangled(made.privateKeyPEM)
        )
        let resolved = try authentication.resolve(wallNow: WallClock.secondsSince1970())
        #expect(resolved.certificate?.topics == made.topics)
        #expect(resolved.certificate?.notAfter == made.notAfter)
        #expect(!"\(authentication)".contains("PRIVATE"))
    }

    // MARK: Expiry

    @Test func theExpiryWarningRepeatsDailyFromThirtyDaysBefore() {
        var watch = CertificateExpiryWatch()
        func check(notAfter: Int64, wallNow: Int64) -> Int64? { watch.check(notAfter: notAfter, wallNow: wallNow) }
        let day: Int64 = 86_400
        let end = 100 * day
        #expect(check(notAfter: end, wallNow: 69 * day) == nil)
        #expect(check(notAfter: end, wallNow: 70 * day) == 30)
        #expect(check(notAfter: end, wallNow: 70 * day + 1) == 29)
        for hour in 1..<24 { #expect(check(notAfter: end, wallNow: 70 * day + Int64(hour) * 3600) == nil) }
        #expect(check(notAfter: end, wallNow: 71 * day + 1) == 28)
        // After the clock is set back, the warning is repeated.
        #expect(check(notAfter: end, wallNow: 70 * day + 60) == 29)
        #expect(check(notAfter: end, wallNow: end - 60) == 0)
        #expect(check(notAfter: end, wallNow: end) == -1)
        #expect(check(notAfter: end, wallNow: end + 60) == nil)
        #expect(check(notAfter: end, wallNow: .max).map { $0 < 0 } == true)
        #expect(check(notAfter: .max, wallNow: .min) == nil)
    }

    @Test func aClientLogsThatItsCertificateExpiresSoon() async throws {
        let (logger, lines) = RecordingLog.make()
        try await self.withClient(logger: logger) {
            let made = try $0.makeClientCertificate(validTo: 10 * 86_400 + 100)
            return .certificate(certificatePEM: made.certificatePEM, privateKeyPEM: made.privateKeyPEM)
        } _: { client, _ in
            await lines.wait { $0.contains { $0.message.contains("expires in 10 days") } }
            #expect(await client.deliver(self.push, to: deviceToken).certainty == .accepted)
        }
        #expect(lines.count(.warning, containing: "expires in") == 1)
    }
}
