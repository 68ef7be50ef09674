import APNSModel
import APNSTransport
import SupervisedPool

/// The result of ``APNSClient/check(topic:within:)``, step by step. The check stops at the first step that fails.
public struct APNSCheck: Sendable, Hashable, CustomStringConvertible {
    /// One step of the check and its result.
    public struct Step: Sendable, Hashable, CustomStringConvertible {
        /// The name of a step. Later versions may add names.
        public struct Name: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
            public let rawValue: String

            public init(rawValue: String) {
                self.rawValue = rawValue
            }

            public var description: String { self.rawValue }

            /// The client is running.
            public static let client = Name(rawValue: "client")
            /// The client can open a connection to APNs: name resolution, network, TLS and protocol all work.
            public static let connection = Name(rawValue: "connection")
            /// APNs responds to a request.
            public static let response = Name(rawValue: "response")
            /// APNs accepts the key or certificate.
            public static let credential = Name(rawValue: "credential")
            /// The credential is allowed to send to the topic.
            public static let topic = Name(rawValue: "topic")
        }

        /// The name of the step.
        public let name: Name
        /// Whether the step succeeded.
        public let isOK: Bool
        /// The finding, as text for people. Contains no secrets.
        public let message: String
        /// What to do about a failure; nil if nothing needs to be done.
        public let advice: String?

        public var description: String {
            "\(self.name): \(self.isOK ? "ok" : "failed"), \(self.message)" + (self.advice.map { " -> \($0)" } ?? "")
        }
    }

    /// The steps in order, up to and including the first one that failed.
    public private(set) var steps: [Step] = []
    /// The time APNs took to respond, without the wait for a connection. Nil if there was no response.
    public internal(set) var roundTrip: Duration?

    /// Whether every step succeeded. False if there are no steps.
    public var isOK: Bool { !self.steps.isEmpty && self.steps.allSatisfy(\.isOK) }

    public var description: String { self.steps.map { "\($0)" }.joined(separator: "\n") }

    mutating func pass(_ name: Step.Name, _ message: String) {
        self.steps.append(Step(name: name, isOK: true, message: message, advice: nil))
    }

    mutating func fail(_ name: Step.Name, _ message: String, _ advice: String) {
        self.steps.append(Step(name: name, isOK: false, message: message, advice: advice))
    }

    /// Evaluates the outcome of a push to a device token that cannot exist. Pure.
    mutating func read(_ outcome: PushOutcome, topic: String) {
        guard let error = outcome.error else {
            // A simulator accepts any token.
            self.pass(.response, "accepted")
            self.pass(.credential, "accepted")
            return self.pass(.topic, "pushes to '\(topic)' are allowed")
        }
        guard let rejection = error.rejection else {
            if error.code == .credential {
                return self.fail(
                    .credential,
                    error.message,
                    "use a key or certificate that is valid in this environment"
                )
            }
            return self.fail(.response, error.message, "check the network and the client's status")
        }
        let reason = rejection.reason
        let text = "\(rejection.status) \(reason?.rawValue ?? "without a reason")"
        if rejection.status == 429 || rejection.status >= 500 {
            return self.fail(.response, text, "APNs is overloaded, or there was too much traffic: try again later")
        }
        guard reason != nil else {
            return self.fail(.response, text, "this may not be APNs: check the environment's host and the proxy")
        }
        self.pass(.response, text)
        if rejection.status == 403 {
            return self.fail(
                .credential,
                "\(text): \(rejection.meaning)",
                "check the key ID, the team ID, the environment of the key, and this machine's clock"
            )
        }
        if rejection.concernsTopic {
            self.pass(.credential, "accepted")
            self.fail(.topic, "\(text): \(rejection.meaning)", "use the app's bundle ID, and a key of its team")
        } else if rejection.provesTopic {
            self.pass(.credential, "accepted")
            self.pass(.topic, "pushes to '\(topic)' are allowed")
        } else if rejection.provesCredential {
            self.pass(.credential, "accepted")
            self.pass(.topic, "'\(topic)' was not refused; only a push to a real device proves it")
        } else {
            self.fail(
                .credential,
                "\(text): \(rejection.meaning)",
                "this response is unexpected: report it to the project swift-apns-pool"
            )
        }
    }
}

extension APNSClient {
    /// Checks the credential and the topic with one round trip to APNs.
    ///
    /// Opens a connection if there is none and sends a background push to a device token that cannot exist. The
    /// response shows whether APNs accepts the credential: `BadDeviceToken` means that it does. A topic that APNs refuses fails
    /// the check; whether APNs checks every topic before the device token is not documented.
    /// Use it for a smoke test after a deployment or a button on an admin page, not for every readiness probe.
    ///
    /// ```swift
    /// let check = await client.check(topic: "com.example.app")
    /// if !check.isOK { print(check) }
    /// ```
    ///
    /// The push appears in the counts and metrics (`rejected`, `BadDeviceToken`).
    ///
    /// - Parameters:
    ///   - topic: the app's bundle ID; nil for the client's default topic. If the client has a VoIP Services certificate of
    ///     the app, its topic (`.voip`) is checked.
    ///   - time: the time limit for the whole check. Default 15 s.
    public func check(topic: String? = nil, within time: Duration = .seconds(15)) async -> APNSCheck {
        await self.runtime.check(topic: topic ?? self.defaultTopic ?? "", within: time)
    }
}

extension ClientRuntime {
    func check(topic: String, within time: Duration) async -> APNSCheck {
        var check = APNSCheck()
        guard self.lifecycle.current == .running else {
            check.fail(.client, "the client is \(self.lifecycle.current)", "call run(), start() or withAPNSClient")
            return check
        }
        check.pass(.client, "runs")
        let deadline = self.clock.now.advanced(by: time)
        let topics = self.credentials.latest.resolved.certificate?.topics ?? []
        let topic = topic.isEmpty ? topic : CredentialProbe.topic(app: topic, certificate: topics)
        let probe: CredentialProbe
        do {
            probe = try CredentialProbe(topic: topic)
        } catch {
            check.fail(.topic, "\(error)", "use the app's bundle ID")
            return check
        }
        do throws(PoolError) {
            try await self.pool.prewarm(1, deadline: deadline)
            check.pass(.connection, "connected to \(self.configuration.environment.authority)")
        } catch {
            check.fail(
                .connection,
                error.fault.map { "\($0)" } ?? "\(error)",
                "check the network, the firewall (ports 443 and 2197), the environment's host and the trust roots"
            )
            return check
        }
        let began = self.clock.now
        let options = DeliveryOptions(deadline: max(began.duration(to: deadline), .milliseconds(1)))
        let outcome = await SendLoop(probe.push, to: probe.token, options, self.sending).run()
        if outcome.status != nil { check.roundTrip = began.duration(to: self.clock.now) }
        check.read(outcome, topic: topic)
        return check
    }
}
