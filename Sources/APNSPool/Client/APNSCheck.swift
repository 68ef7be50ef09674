import APNSModel
import SupervisedPool

/// What ``APNSClient/check(topic:within:)`` found out, step by step. The first step that fails is the last one.
public struct APNSCheck: Sendable, Hashable, CustomStringConvertible {
    /// One step of the check, and how it went.
    public struct Step: Sendable, Hashable, CustomStringConvertible {
        /// Later versions may add names.
        public struct Name: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
            public let rawValue: String

            public init(rawValue: String) {
                self.rawValue = rawValue
            }

            public var description: String { self.rawValue }

            /// The client runs.
            public static let client = Name(rawValue: "client")
            /// A connection to APNs can be had: name, network, TLS, protocol.
            public static let connection = Name(rawValue: "connection")
            /// APNs answers.
            public static let response = Name(rawValue: "response")
            /// APNs takes the key or certificate.
            public static let credential = Name(rawValue: "credential")
            /// The credential may send to the topic.
            public static let topic = Name(rawValue: "topic")
        }

        /// Which step it is.
        public let name: Name
        /// Whether it went well.
        public let isOK: Bool
        /// What was found, for people. Holds no secret.
        public let message: String
        /// What to do; nil if nothing.
        public let advice: String?

        public var description: String {
            "\(self.name): \(self.isOK ? "ok" : "failed"), \(self.message)" + (self.advice.map { " -> \($0)" } ?? "")
        }
    }

    /// The steps in their order, up to the first that failed.
    public private(set) var steps: [Step] = []
    /// How long APNs took for its response, the wait for a connection aside; nil without one.
    public internal(set) var roundTrip: Duration?

    /// Whether all is well.
    public var isOK: Bool { !self.steps.isEmpty && self.steps.allSatisfy(\.isOK) }

    public var description: String { self.steps.map { "\($0)" }.joined(separator: "\n") }

    mutating func pass(_ name: Step.Name, _ message: String) {
        self.steps.append(Step(name: name, isOK: true, message: message, advice: nil))
    }

    mutating func fail(_ name: Step.Name, _ message: String, _ advice: String) {
        self.steps.append(Step(name: name, isOK: false, message: message, advice: advice))
    }

    /// Reads what became of a push to a device token that cannot exist. Pure.
    mutating func read(_ outcome: PushOutcome, topic: String) {
        guard let error = outcome.error else {
            // A simulator takes any token.
            self.pass(.response, "accepted")
            self.pass(.credential, "accepted")
            return self.pass(.topic, "'\(topic)' may be sent to")
        }
        guard let rejection = error.rejection else {
            if error.code == .credential {
                return self.fail(
                    .credential,
                    error.message,
                    "give a key or certificate that is valid in this environment"
                )
            }
            return self.fail(.response, error.message, "look at the network, and at the client's status")
        }
        let reason = rejection.reason
        let text = "\(rejection.status) \(reason?.rawValue ?? "without a reason")"
        if rejection.status == 429 || rejection.status >= 500 {
            return self.fail(.response, text, "APNs is overloaded, or there was too much traffic: try again later")
        }
        guard reason != nil else {
            return self.fail(.response, text, "this may not be APNs: look at the environment's host and the proxy")
        }
        self.pass(.response, text)
        if rejection.status == 403 {
            return self.fail(
                .credential,
                "\(text): \(rejection.meaning)",
                "look at key ID, team ID, the environment of the key, and this machine's clock"
            )
        }
        let topicReasons: Set<RejectionReason> = [
            .topicDisallowed, .deviceTokenNotForTopic, .badTopic, .missingTopic,
        ]
        if reason == .badDeviceToken || rejection.status == 410 {
            self.pass(.credential, "accepted")
            self.pass(.topic, "'\(topic)' may be sent to")
        } else if let reason, topicReasons.contains(reason) {
            self.pass(.credential, "accepted")
            self.fail(.topic, "\(text): \(rejection.meaning)", "use the app's bundle ID, and a key of its team")
        } else {
            self.fail(.credential, "\(text): \(rejection.meaning)", "report this response: it was not expected")
        }
    }
}

extension APNSClient {
    /// Makes one round trip to APNs: has a connection opened if none is, and sends a background push to a device token
    /// that cannot exist. What APNs answers tells whether it takes the credential and the topic: `BadDeviceToken` means
    /// that all is well. For a deployment's smoke test or a button in an admin page, not for each readiness probe.
    ///
    /// ```swift
    /// let check = await client.check(topic: "com.example.app")
    /// if !check.isOK { print(check) }
    /// ```
    ///
    /// The push is one in the counts and metrics (`rejected`, `BadDeviceToken`).
    ///
    /// - Parameters:
    ///   - topic: the app's bundle ID.
    ///   - time: until when there is a result in any case. Default 15 s.
    public func check(topic: String, within time: Duration = .seconds(15)) async -> APNSCheck {
        await self.runtime.check(topic: topic, within: time)
    }
}

extension ClientRuntime {
    /// 32 bytes of zeros.
    private static let impossibleToken = String(repeating: "0", count: 64)

    func check(topic: String, within time: Duration) async -> APNSCheck {
        var check = APNSCheck()
        guard self.lifecycle.current == .running else {
            check.fail(.client, "the client is \(self.lifecycle.current)", "call run(), start() or withAPNSClient")
            return check
        }
        check.pass(.client, "runs")
        let deadline = self.clock.now.advanced(by: time)
        let push: PreparedPush
        let token: DeviceToken
        do {
            token = try DeviceToken(Self.impossibleToken)
            push = try PreparedPush(
                topic: topic,
                pushType: .background,
                payload: Array(#"{"aps":{"content-available":1}}"#.utf8),
                priority: .conserve,
                expiration: .immediate
            )
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
                "look at the network, the firewall (ports 443 and 2197), the environment's host and the trust roots"
            )
            return check
        }
        let began = self.clock.now
        let options = DeliveryOptions(deadline: max(began.duration(to: deadline), .milliseconds(1)))
        let outcome = await PushSend(push, to: token, options, dated: nil, self.sending).run()
        if outcome.status != nil { check.roundTrip = began.duration(to: self.clock.now) }
        check.read(outcome, topic: topic)
        return check
    }
}
