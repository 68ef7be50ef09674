import APNSModel
import APNSTransport
import SupervisedPool

/// A push to a device token that cannot exist. APNs' response shows whether it accepts the credential.
///
/// Apple does not document in which order APNs checks a push. A public report (firebase-ios-sdk#4042) shows that APNs
/// judges the credential before the device token: a text that is no device token got `InvalidProviderToken`. So a
/// response about the device token, such as `BadDeviceToken`, proves the credential.
struct CredentialProbe: Sendable {
    /// The topic of a probe if no topic of the user's is known. A response about this topic also proves the credential.
    static let unknownTopic = "com.example.credential-probe"

    let push: PreparedPush
    /// 32 zero bytes.
    let token: DeviceToken

    /// The topic of a probe.
    ///
    /// - Parameters:
    ///   - bundleID: The app that the credential is needed for; nil if none is known.
    ///   - topics: The topics of a certificate; empty for a key.
    static func topic(app bundleID: String?, certificate topics: [String]) -> String {
        guard let bundleID else { return topics.first ?? Self.unknownTopic }
        // A VoIP services certificate has only the topic that ends with `.voip`.
        let voIP = bundleID + PushType.voip.topicSuffix
        return !topics.contains(bundleID) && topics.contains(voIP) ? voIP : bundleID
    }

    /// - Throws: `ValidationError` if the topic is not valid.
    init(topic: String) throws(ValidationError) {
        self.token = try DeviceToken(bytes: [UInt8](repeating: 0, count: 32))
        let isVoIP = topic.hasSuffix(PushType.voip.topicSuffix)
        self.push = try PreparedPush(
            topic: topic,
            pushType: isVoIP ? .voip : .background,
            payload: Array(#"{"aps":{"content-available":1}}"#.utf8),
            priority: isVoIP ? .immediate : .conserve,
            expiration: .immediate
        )
    }

    enum Verdict: Sendable, Equatable {
        case accepted
        /// APNs refuses the credential, or refuses it for the topic, with the reason.
        case refused(String)
        /// Neither accepted nor refused, with what happened instead.
        case undecided(String)

        /// - Parameter topic: The topic of the user's that the probe had; nil if it had `unknownTopic`.
        init(_ outcome: PushOutcome, topic: String?) {
            // A simulator accepts any token.
            guard let error = outcome.error else {
                self = .accepted
                return
            }
            guard let rejection = error.rejection else {
                self = .undecided(error.message)
                return
            }
            let text = "\(rejection.status) \(rejection.reason?.rawValue ?? "without a reason"): \(rejection.meaning)"
            // ExpiredProviderToken: a clock is wrong. No reason: not APNs, but a proxy or an edge server.
            if rejection.status == 403, rejection.reason != nil, rejection.reason != .expiredProviderToken {
                self = .refused(text)
            } else if rejection.concernsTopic {
                self = topic.map { .refused("\(text) (topic '\($0)')") } ?? .accepted
            } else {
                self = rejection.provesCredential ? .accepted : .undecided("APNs responded with \(text)")
            }
        }
    }
}

extension Rejection {
    /// Whether APNs refuses the push because of its topic.
    var concernsTopic: Bool {
        guard let reason = self.reason else { return false }
        let reasons: Set<RejectionReason> = [.topicDisallowed, .deviceTokenNotForTopic, .badTopic, .missingTopic]
        return reasons.contains(reason)
    }
}

/// A probe by one session's credential, whether or not it is in use. It is not counted as one of the client's pushes.
struct ProbeRequest: SendRequest {
    static var noun: String { "probes" }

    let session: CredentialSession
    let probe: CredentialProbe

    var bytes: Int { self.probe.push.payload.count }

    func nextRoute(_ router: SendRouter, now: MonotonicInstant) throws(AttemptEnd) -> SendRoute {
        guard !self.session.isRetired else {
            throw .notSent(.connectionLost, "the credential is no longer needed", isFinal: true)
        }
        return try router.route(by: self.session, to: .pushes, version: router.currentVersion, now: now)
    }

    func encode(id: APNSID, authorization: HeaderBlock?, _ context: SendContext) -> HTTP2Request {
        // Not the router's blocks, which remember the topic of the last push.
        var blocks = HeaderBlocks(authority: context.configuration.environment.authority)
        return RequestEncoder.request(
            self.probe.push,
            block: blocks.block(for: self.probe.push),
            to: self.probe.token,
            id: id,
            credential: authorization
        )
    }
}
