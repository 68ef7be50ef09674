extension RejectionReason {
    /// Everything known about one reason. This table is the only place that describes reasons.
    struct Entry: Sendable {
        var reason: RejectionReason
        var status: Int
        var disposition: Disposition
        /// Whether a resend may succeed without any correction.
        var mayBeResent = false
        /// How long to wait before a resend; nil if no time is known.
        var delay: Duration?
        /// What the reason is about, and so what a response with it proves.
        var subject: Subject
        var meaning: String
        /// Its other spelling.
        var alias: String?

        init(
            _ reason: RejectionReason,
            _ status: Int,
            _ disposition: Disposition,
            _ meaning: String,
            mayBeResent: Bool = false,
            delay: Duration? = nil,
            about subject: Subject? = nil,
            alias: String? = nil
        ) {
            self.reason = reason
            self.status = status
            self.disposition = disposition
            self.meaning = meaning
            self.mayBeResent = mayBeResent
            self.delay = delay
            self.subject = subject ?? (disposition == .credential ? .credential : .request)
            self.alias = alias
        }
    }

    /// What a response is about. A response about the service, the credential or the connection is weather: it would have
    /// met any other push. All others are verdicts on their push.
    ///
    /// Apple's pages do not say in which order APNs checks a request. What is known: a text that is no device token got
    /// `InvalidProviderToken` (firebase/firebase-ios-sdk#4042), so the credential is checked before the device token.
    enum Subject: Sendable {
        /// APNs itself, or a server before it.
        case service
        /// The provider token or the certificate.
        case credential
        /// This connection: another one may well work.
        case connection
        /// The request. The credential may not have been checked.
        case request
        /// The device token, which is checked after the credential. The topic may not have been checked.
        case deviceToken
        /// The device token for this topic: the credential is valid for the topic.
        case deviceTokenAndTopic
    }

    /// The delay after 500 and 503. Apple, "Handling notification responses from APNs": start with 15 minutes.
    private static let apnsRecovery = Duration.seconds(15 * 60)

    static let table: [Entry] = [
        Entry(.badCollapseID, 400, .fixRequest, "the collapse id is longer than 64 bytes or otherwise invalid"),
        Entry(
            .badDeviceToken,
            400,
            .tokenOrEnvironment,
            "the device token is malformed or, most often, belongs to the other environment (sandbox or production)",
            about: .deviceToken
        ),
        Entry(.badExpirationDate, 400, .fixRequest, "the expiration is invalid"),
        Entry(.badMessageID, 400, .fixRequest, "the apns-id is not a UUID"),
        Entry(.badPriority, 400, .fixRequest, "the priority is invalid"),
        Entry(.badTopic, 400, .fixRequest, "the topic is invalid"),
        Entry(
            .deviceTokenNotForTopic,
            400,
            .tokenOrEnvironment,
            "the device token does not belong to the topic's app",
            about: .deviceToken
        ),
        Entry(.duplicateHeaders, 400, .fixRequest, "a header was sent twice"),
        Entry(
            .idleTimeout,
            400,
            .retryLater,
            "the connection had been idle too long",
            mayBeResent: true,
            delay: .zero,
            about: .connection
        ),
        Entry(.invalidPushType, 400, .fixRequest, "the push type is unknown to APNs or does not fit"),
        Entry(.missingDeviceToken, 400, .fixRequest, "the request has no device token"),
        Entry(.missingTopic, 400, .fixRequest, "the topic is missing; the certificate covers several"),
        Entry(.payloadEmpty, 400, .fixRequest, "the request has no payload"),
        Entry(
            .topicDisallowed,
            400,
            .fixRequest,
            "pushing to this topic is not allowed, or the key does not cover it"
        ),
        Entry(.badCertificate, 403, .credential, "the certificate is invalid"),
        Entry(.badCertificateEnvironment, 403, .credential, "the certificate belongs to the other environment"),
        Entry(
            .badEnvironmentKeyInToken,
            403,
            .credential,
            "the key belongs to the other environment",
            alias: "BadEnvironmentKeyIdInToken"
        ),
        Entry(
            .expiredProviderToken,
            403,
            .credential,
            "the provider token is older than an hour; a fresh one is needed (or the clock is wrong)",
            mayBeResent: true,
            delay: .zero
        ),
        Entry(.forbidden, 403, .credential, "the action is not allowed for this account"),
        Entry(
            .invalidProviderToken,
            403,
            .credential,
            "the provider token's signature, key id or team id is wrong, or the key was revoked"
        ),
        Entry(.missingProviderToken, 403, .credential, "neither a provider token nor a certificate was given"),
        Entry(
            .unrelatedKeyIDInToken,
            403,
            .credential,
            "the connection is bound to another key; a new connection is needed",
            mayBeResent: true,
            delay: .zero,
            about: .connection
        ),
        Entry(.badPath, 404, .fixRequest, "the path of the request is wrong"),
        Entry(.methodNotAllowed, 405, .fixRequest, "the method of the request is wrong"),
        Entry(.expiredToken, 410, .tokenInvalid, "the device token has expired", about: .deviceTokenAndTopic),
        Entry(
            .unregistered,
            410,
            .tokenInvalid,
            "the device token is no longer active for the topic",
            about: .deviceTokenAndTopic
        ),
        Entry(.payloadTooLarge, 413, .fixRequest, "the payload is too large"),
        Entry(
            .tooManyProviderTokenUpdates,
            429,
            .retryLater,
            "the provider token was changed more often than every 20 minutes; keep the one in use",
            mayBeResent: true,
            delay: .seconds(20 * 60),
            about: .credential
        ),
        Entry(
            .tooManyRequests,
            429,
            .pauseDevice,
            "too many pushes in a row to one device token or channel",
            mayBeResent: true,
            about: .deviceToken
        ),
        Entry(
            .internalServerError,
            500,
            .retryLater,
            "APNs had an internal error",
            mayBeResent: true,
            delay: apnsRecovery,
            about: .service
        ),
        Entry(
            .serviceUnavailable,
            503,
            .retryLater,
            "APNs is overloaded or down",
            mayBeResent: true,
            delay: apnsRecovery,
            about: .service
        ),
        Entry(
            .shutdown,
            503,
            .retryLater,
            "this APNs server is stopping; another one will take the push",
            mayBeResent: true,
            delay: .zero,
            about: .service
        ),
        Entry(
            .broadcastFeatureNotEnabled,
            400,
            .fixRequest,
            "broadcast is not enabled for the app in the developer portal",
            alias: "FeatureNotEnabled"
        ),
        Entry(.missingChannelID, 400, .fixRequest, "the channel id is missing"),
        Entry(.badChannelID, 400, .fixRequest, "the channel id is invalid or unknown"),
        Entry(.channelNotRegistered, 400, .fixRequest, "the channel was deleted"),
        Entry(.badRequestParams, 400, .fixRequest, "the request's parameters are wrong"),
        Entry(.badRequestPayload, 400, .fixRequest, "the request's body is wrong"),
        Entry(.missingPushType, 400, .fixRequest, "the push type is missing"),
        Entry(.cannotCreateChannelConfig, 400, .fixRequest, "the app has reached its limit of channels"),
        Entry(.missingChannelQueueSize, 400, .fixRequest, "the channel's storage policy is missing or invalid"),
        Entry(.topicMismatch, 403, .credential, "the certificate does not cover the bundle ID", about: .request),
    ]

    private static let byName: [String: Entry] = {
        var entries: [String: Entry] = [:]
        for entry in table {
            entries[folded(entry.reason.rawValue)] = entry
            if let alias = entry.alias {
                entries[folded(alias)] = entry
            }
        }
        return entries
    }()

    var entry: Entry? { Self.byName[Self.folded(self.rawValue)] }

    /// The canonical spelling of the reason.
    var canonical: String { self.entry?.reason.rawValue ?? Self.folded(self.rawValue) }

    /// Removes blanks: Apple's broadcast page prints one.
    private static func folded(_ text: String) -> String {
        text.utf8.contains(0x20) ? text.filter { $0 != " " } : text
    }
}
