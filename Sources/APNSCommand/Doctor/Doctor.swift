import APNSPool
import APNSTransport
import NIOCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Checks the path of a push step by step. Steps that depend on a failed step are skipped.
struct Doctor {
    private static let timeout = TimeAmount.seconds(10)
    /// A certificate that expires within this many days is reported.
    private static let certificateDays = 30

    private let options: ToolSettings
    private var report = DoctorReport()

    init(_ options: ToolSettings) {
        self.options = options
    }

    private var host: String { self.options.configuration.environment.host }
    private var port: Int { self.options.configuration.environment.port }

    mutating func examine() async -> DoctorReport {
        self.report.settings = self.options.given
        self.examineLibraries()
        self.examineSettings()
        let client = await self.examineCredential()
        await self.examineConnection()
        await self.examineResponse(client)
        return self.report
    }

    // MARK: Checks without network

    private mutating func examineLibraries() {
        self.report.pass(
            "libraries",
            [
                LinkedVersions.openSSL,
                "nghttp2 \(LinkedVersions.nghttp2)",
                "Distributions backport security fixes without changing these versions: ask the package manager.",
            ]
        )
    }

    private mutating func examineSettings() {
        var lines = ["server \(self.host), port \(self.port)"]
        lines += self.options.given.map { "\($0.option) \($0.value) (\($0.origin))" }
        self.report.pass("settings", lines)
    }

    private mutating func examineCredential() async -> APNSClient? {
        var configuration = self.options.configuration
        // One connection, opened only on request.
        configuration.pool.size = 0
        configuration.pool.maxOverflow = 1
        let file = self.options.credentialFile
        do throws(APNSConfigurationError) {
            let client = try APNSClient(configuration: configuration)
            let status = await client.status.authentication
            var found = [status.name]
            if let file { found.insert(file, at: 0) }
            if let team = status.teamID {
                found.append(
                    "APNs allows a new provider token every 20 minutes. Reports disagree whether it counts the tokens of a "
                        + "key or of all keys of team \(team): do not change two of its keys' tokens in that time."
                )
            }
            if !status.certificateTopics.isEmpty {
                found.append("topics \(status.certificateTopics.joined(separator: ", "))")
            }
            if let expiry = status.certificateExpiry {
                let days = (expiry - WallTime.now) / 86_400
                found.append("\(days) days left")
                if days < Self.certificateDays {
                    self.report.warn("credential", found, "Renew the certificate in the developer portal.")
                    return self.examineTopic(status.certificateTopics) ? client : nil
                }
            }
            if let file, let mode = Files.mode(file), mode & 0o077 != 0 {
                self.report.warn(
                    "credential",
                    found,
                    "Other users of this machine may read the file: chmod 600 '\(file)'."
                )
            } else if !self.options.hasCredential {
                self.report.warn("credential", ["none"], "APNs requires one: give --key and --team-id.")
            } else {
                self.report.pass("credential", found)
            }
            return self.examineTopic(status.certificateTopics) ? client : nil
        } catch {
            self.report.fail(
                error.setting.hasPrefix("trust") ? "trust roots" : "credential",
                [self.options.fault(for: error).message],
                self.advice(for: error),
                error.code == .outputRefused ? .usage : .configuration
            )
            return nil
        }
    }

    /// Compares the topic with those of a certificate, which APNs does only when it gets a push.
    ///
    /// - Returns: Whether a push can be tried.
    private mutating func examineTopic(_ topics: [String]) -> Bool {
        guard self.options.hasCertificate, let topic = self.options.topic else { return true }
        // No certificate is for such a topic, so the comparison would advise one that does not exist.
        if topic.hasSuffix(PushType.liveactivity.topicSuffix) {
            self.report.warn("topic", [topic], ToolSettings.liveActivitiesNeedAKey)
            return true
        }
        if !topics.isEmpty, !topics.contains(topic) {
            self.report.fail(
                "topic",
                ["the certificate is not for \(topic), but for \(topics.joined(separator: ", "))"],
                "Give one of these topics with --topic, or the certificate of \(topic) with --certificate.",
                .configuration
            )
            return false
        }
        return true
    }

    private func advice(for error: APNSConfigurationError) -> String {
        if self.options.hasCertificate,
            let advice = Self.certificateAdvice(for: error.code, isPKCS12: self.options.hasPKCS12)
        {
            return advice
        }
        return switch error.code {
        case .fileUnreadable: "Check the path and the file's permissions."
        case .identifierInvalid, .conflict:
            "Key id and team id have 10 characters each. The key id is in the file's name; the team id is on the "
                + "membership page of the developer portal."
        case .keyTypeWrong, .notAKey, .keyDamaged, .keyEncrypted:
            "Give the file AuthKey_….p8 as you downloaded it from the developer portal (Keys)."
        default: "Change \(self.options.fault(for: error).written)."
        }
    }

    /// What to do about a certificate; nil for an error that is not about one.
    ///
    /// - Parameter isPKCS12: Whether the certificate is in a PKCS#12 file, which must hold its key as well.
    static func certificateAdvice(for code: APNSConfigurationError.Code, isPKCS12: Bool = false) -> String? {
        switch code {
        case .notAKey where isPKCS12:
            "Export the certificate together with its key, and give that file with --certificate. Or give both as PEM "
                + "files, with --certificate and --certificate-key."
        case .notACertificate:
            "Give the certificate with --certificate: PEM or DER, with its key in --certificate-key; or a .p12 file, which "
                + "holds both."
        case .notAKey, .keyMismatch:
            "Give the key of the certificate request with --certificate-key, or a .p12 file with certificate and key with "
                + "--certificate."
        case .keyEncrypted:
            "Write the passphrase to a file, and give that file with --certificate-password-file."
        case .passphraseWrong:
            "Correct the first line of the file of --certificate-password-file: the passphrase that was chosen at the "
                + "export."
        case .encryptionTooOld: "Convert the file as described, and give the result with --certificate."
        case .certificateExpired: "Make a new certificate in the developer portal, and give it with --certificate."
        case .certificateNotYetValid: "Set this machine's clock, or wait until the certificate is valid."
        default: nil
        }
    }

    // MARK: Checks of the connection

    private mutating func examineConnection() async {
        // A proxy resolves the server's name itself.
        let target = self.options.configuration.proxy.map { (host: $0.host, port: $0.port) } ?? (self.host, self.port)
        let prefix = self.options.configuration.proxy == nil ? "" : "proxy "
        guard let addresses = self.lookUp(target, prefix + "name") else {
            self.report.skip(prefix + "TCP")
            return self.skipServer()
        }
        guard await self.connect(addresses, prefix + "TCP") else { return self.skipServer() }
        do throws(WireError) {
            let finding = await NetworkProbe.examine(
                try self.connection(),
                authority: self.options.configuration.environment.description
            )
            if let proxy = self.options.configuration.proxy {
                guard self.examineProxy("\(proxy.host):\(proxy.port)", finding) else { return self.skipServer() }
            }
            self.examineServer(finding)
        } catch {
            self.examineServer(NetworkProbe.Finding(error: error))
        }
    }

    /// The settings of the connection that is examined. It presents no certificate.
    private func connection() throws(WireError) -> Connection.Configuration {
        var tls = TLSConfiguration()
        tls.caFile = self.options.configuration.trust.caFile
        tls.caPEM = self.options.configuration.trust.caPEM
        var connection = Connection.Configuration(
            host: self.host,
            port: self.port,
            tls: try TLSContext(.client, configuration: tls),
            variableNames: [":path"]
        )
        connection.connectTimeout = Self.timeout
        connection.proxy = self.options.configuration.proxy.map { proxy in
            ProxyEndpoint(
                host: proxy.host,
                port: proxy.port,
                credentials: proxy.username.map { .init(username: $0, password: proxy.password ?? "") }
            )
        }
        return connection
    }

    /// - Returns: whether the proxy has opened a tunnel.
    private mutating func examineProxy(_ proxy: String, _ finding: NetworkProbe.Finding) -> Bool {
        guard let error = finding.error, error.isAboutProxy else {
            self.report.pass("proxy", ["\(proxy) opened a tunnel to \(self.host):\(self.port)"])
            return true
        }
        self.report.fail(
            "proxy",
            [error.message],
            error.code == .proxyAuthenticationFailed
                ? "Give user and password for Basic authentication, percent-encoded: --proxy "
                    + "http://USER:PASSWORD@HOST:PORT. If the proxy does not offer Basic, let it allow CONNECT to "
                    + "\(self.host):\(self.port) without authentication."
                : "Allow CONNECT to \(self.host):\(self.port) in the proxy, or connect without --proxy.",
            .unreachable
        )
        return false
    }

    /// What to add to the advice about an unreachable server if the environment names a proxy that is not used.
    private var unusedProxy: String {
        let variables = ToolProcess.current.variables
        let names = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
        guard self.options.configuration.proxy == nil,
            let name = names.first(where: { variables[$0]?.isEmpty == false })
        else { return "" }
        return " \(name) is set, but apns does not use it: give the proxy with --proxy or APNS_PROXY."
    }

    private mutating func lookUp(_ target: (host: String, port: Int), _ step: String) -> [SocketAddress]? {
        switch NetworkProbe.lookUp(host: target.host, port: target.port) {
        case .failure(let error):
            self.report.fail(
                step,
                [error.message],
                "Check the spelling of the host and this machine's DNS (/etc/resolv.conf)." + self.unusedProxy,
                .unreachable
            )
            return nil
        case .success(let addresses):
            let texts = addresses.map { $0.ipAddress ?? "\($0)" }
            self.report.pass(step, ["\(target.host) is \(texts.joined(separator: ", "))"])
            return addresses
        }
    }

    /// - Returns: whether an address can be reached.
    private mutating func connect(_ addresses: [SocketAddress], _ step: String) async -> Bool {
        var found: [String] = []
        var isReached = false
        // The addresses that the client might use, up to a limit.
        for address in addresses.prefix(8) {
            let start = ContinuousClock.now
            do throws(WireError) {
                try await NetworkProbe.connect(to: address, timeout: Self.timeout)
                let time = Self.milliseconds(start.duration(to: .now))
                found.append("\(NetworkProbe.text(address)) connected in \(time)")
                isReached = true
            } catch {
                found.append(error.message)
            }
        }
        guard isReached else {
            self.report.fail(
                step,
                found,
                "Check the port, and that no firewall blocks connections from this machine to the ports 443 and 2197. "
                    + "You can also reach APNs through a proxy (--proxy)." + self.unusedProxy,
                .unreachable
            )
            return false
        }
        if found.contains(where: { !$0.contains(" connected in ") }) {
            self.report.warn(step, found, "Some addresses cannot be reached: check routes and IPv6.")
        } else {
            self.report.pass(step, found)
        }
        return true
    }

    private mutating func skipServer() {
        for step in ["TLS", "HTTP/2", "clock"] { self.report.skip(step) }
    }

    // MARK: Checks of the server

    private mutating func examineServer(_ finding: NetworkProbe.Finding) {
        guard let handshake = finding.handshake else {
            let error = finding.error ?? WireError(.handshakeFailed, "the TLS handshake did not complete")
            self.report.fail("TLS", [error.message], Self.advice(for: error) + self.unusedProxy, .configuration)
            self.report.skip("HTTP/2")
            self.report.skip("clock")
            return
        }
        var found = ["\(handshake.version), \(handshake.cipher)"]
        for certificate in handshake.chain {
            let days = certificate.secondsLeft / 86_400
            found.append("\(certificate.subject), issued by \(certificate.issuer)")
            found.append("  until \(certificate.validUntil) (\(days) days left)")
        }
        if let distrust = handshake.distrust {
            let advice = Self.advice(for: distrust) + self.unusedProxy
            self.report.fail("TLS", [distrust.message] + found, advice, .configuration)
        } else {
            self.report.pass("TLS", found)
        }
        guard handshake.applicationProtocol == "h2" else {
            let chosen = handshake.applicationProtocol.map { "'\($0)'" } ?? "no protocol"
            self.report.fail(
                "HTTP/2",
                ["the server chose \(chosen) instead of 'h2' (ALPN)"],
                "This is not APNs: check host and port, and whether a proxy intercepts TLS.",
                .configuration
            )
            self.report.skip("clock")
            return
        }
        self.report.pass("HTTP/2", ["h2 (ALPN)"])
        self.examineClock(finding)
    }

    private static func advice(for error: WireError) -> String {
        switch error.code {
        case .certificateUntrusted:
            "If the server is your own, give its CA with --ca-file. Otherwise, a proxy may intercept TLS: trust its "
                + "CA, or let APNs pass unchanged. Or this machine lacks the package ca-certificates: install it."
        case .certificateExpired: "Renew the server's certificate. If the server is APNs, check this machine's clock."
        case .certificateNotYetValid: "Set this machine's clock."
        case .certificateForOtherHost: "Connect to a name that the certificate covers (--endpoint)."
        case .notTLS: "Check the port: APNs listens on 443 and 2197."
        case .noHTTP2: "This is not APNs: check host and port, and whether a proxy intercepts TLS."
        case .clientCertificateRefused: "Check --certificate."
        case .trustStoreMissing, .trustRootsUnreadable: "Check --ca-file and the package ca-certificates."
        default: "Check for a firewall or proxy between this machine and the server."
        }
    }

    private mutating func examineClock(_ finding: NetworkProbe.Finding) {
        guard let response = finding.response else {
            // A server that requires a certificate closes connections that present none. The push will show the result.
            let reason = finding.error.map { ": \($0.message)" } ?? ""
            return self.report.skip("clock", "no response without a credential" + reason)
        }
        guard let date = response.date, let theirs = HTTPDate.seconds(date) else {
            return self.report.skip("clock", "the server's response (\(response.status)) has no date")
        }
        let now = WallTime.now
        guard let hint = ClockSkew.skewHint(dateHeader: date, wallNow: now) else {
            return self.report.pass("clock", ["\(abs(now - theirs)) s from the server's"])
        }
        let advice = "Set the clock with NTP: APNs rejects provider tokens that are an hour old or from the future."
        // Half of a provider token's lifetime.
        if abs(now - theirs) > 1800 {
            self.report.fail("clock", [hint], advice, .configuration)
        } else {
            self.report.warn("clock", [hint], advice)
        }
    }

    // MARK: Check with a push

    private mutating func examineResponse(_ client: APNSClient?) async {
        let isOnlyClock = self.report.steps.allSatisfy { $0.state != .failed || $0.name == "clock" }
        guard let client, isOnlyClock else { return self.report.skip("push") }
        guard let topic = self.options.topic else {
            return self.report.warn(
                "push",
                ["not tried: there is no topic"],
                "Give --topic to test the credential and the topic with one push to a token that cannot exist."
            )
        }
        let check: APNSCheck
        do throws(APNSConfigurationError) {
            try await client.start()
            // The test is a background push, whose topic has no suffix.
            let suffix = PushType.liveactivity.topicSuffix
            check = await client.check(topic: topic.hasSuffix(suffix) ? String(topic.dropLast(suffix.count)) : topic)
            await client.shutdown()
        } catch {
            return self.report.fail("push", ["\(error)"], "Check the steps above.", .configuration)
        }
        for step in check.steps where step.name != .client {
            if step.isOK {
                let time = step.name == .response ? check.roundTrip.map(Self.milliseconds) : nil
                self.report.pass(step.name.rawValue, [step.message + (time.map { ", after \($0)" } ?? "")])
            } else {
                self.report.fail(
                    step.name.rawValue,
                    [step.message],
                    Self.sentence(step.advice ?? "Check the steps above"),
                    Self.blame(for: step)
                )
            }
        }
    }

    private static func blame(for step: APNSCheck.Step) -> DoctorReport.Blame {
        switch step.name {
        case .connection: .unreachable
        case .response: .overload
        default: .configuration
        }
    }

    private static func milliseconds(_ time: Duration) -> String {
        "\(((time / .milliseconds(1)) * 10).rounded() / 10) ms"
    }

    private static func sentence(_ text: String) -> String {
        (text.first.map { $0.uppercased() } ?? "") + text.dropFirst() + (text.hasSuffix(".") ? "" : ".")
    }
}

/// This machine's clock.
enum WallTime {
    /// Seconds since 1970.
    static var now: Int64 { Int64(Date().timeIntervalSince1970) }
}
