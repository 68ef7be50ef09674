/// Why APNs rejected a push: the `reason` in the body of its response. Open: an unknown reason keeps its text.
///
/// Apple's pages and APNs spell three reasons differently, so reasons are compared by meaning: both spellings of a
/// reason are equal, and blanks are ignored. Coded as the string that APNs sent.
///
/// Source: Apple, "Handling notification responses from APNs", "Handling error responses from APNs" (broadcast).
public struct RejectionReason: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
    /// The text that APNs sent.
    public let rawValue: String

    public init(rawValue: String) {
        self.rawValue = rawValue
    }

    public var description: String { self.rawValue }

    public static func == (left: RejectionReason, right: RejectionReason) -> Bool {
        left.rawValue == right.rawValue || left.canonical == right.canonical
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(self.canonical)
    }

    /// The kind of action that a rejection calls for.
    public struct Disposition: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// The request is wrong and will always be rejected: correct the notification, the topic or the caller.
        public static let fixRequest = Disposition(rawValue: "fix-request")
        /// The device token is no longer valid.
        public static let tokenInvalid = Disposition(rawValue: "token-invalid")
        /// The device token does not match the environment or the topic. Usually sandbox and production, or two apps,
        /// were confused. Do not delete tokens for this.
        public static let tokenOrEnvironment = Disposition(rawValue: "token-or-environment")
        /// The provider token or certificate is wrong, not this push.
        public static let credential = Disposition(rawValue: "credential")
        /// The failure is in APNs or the connection: a resend may succeed later.
        public static let retryLater = Disposition(rawValue: "retry-later")
        /// Too many pushes to this one device: pause sends to it and continue with the other devices.
        public static let pauseDevice = Disposition(rawValue: "pause-device")
    }

    /// All reasons that are documented or were observed.
    public static var known: [RejectionReason] { self.table.map(\.reason) }

    /// The HTTP status that APNs sends with the reason; nil for unknown reasons.
    public var status: Int? { self.entry?.status }

    /// The meaning of the reason, in one sentence; nil for unknown reasons.
    public var meaning: String? { self.entry?.meaning }

    /// The kind of action that a reason calls for. For an unknown reason, or none, it follows from the status.
    public static func disposition(of reason: RejectionReason?, status: Int) -> Disposition {
        if let entry = reason?.entry { return entry.disposition }
        switch status {
        case 403: return .credential
        // An unknown reason does not justify deleting a token.
        case 410: return reason == nil ? .tokenInvalid : .fixRequest
        // Without a reason, it comes from a server before APNs and says nothing about the device.
        case 429: return reason == nil ? .retryLater : .pauseDevice
        case 500...: return .retryLater
        default: return .fixRequest
        }
    }
}

extension RejectionReason {
    /// 400: the collapse id is longer than 64 bytes or otherwise invalid.
    public static let badCollapseID = RejectionReason(rawValue: "BadCollapseId")
    /// 400: the device token is malformed or, most often, belongs to the other environment (sandbox or production).
    public static let badDeviceToken = RejectionReason(rawValue: "BadDeviceToken")
    /// 400: the expiration is invalid.
    public static let badExpirationDate = RejectionReason(rawValue: "BadExpirationDate")
    /// 400: the apns-id is not a UUID.
    public static let badMessageID = RejectionReason(rawValue: "BadMessageId")
    /// 400: the priority is invalid.
    public static let badPriority = RejectionReason(rawValue: "BadPriority")
    /// 400: the topic is invalid.
    public static let badTopic = RejectionReason(rawValue: "BadTopic")
    /// 400: the device token does not belong to the topic's app.
    public static let deviceTokenNotForTopic = RejectionReason(rawValue: "DeviceTokenNotForTopic")
    /// 400: a header was sent twice.
    public static let duplicateHeaders = RejectionReason(rawValue: "DuplicateHeaders")
    /// 400: the connection had been idle too long.
    public static let idleTimeout = RejectionReason(rawValue: "IdleTimeout")
    /// 400: the push type is unknown to APNs or does not fit.
    public static let invalidPushType = RejectionReason(rawValue: "InvalidPushType")
    /// 400: the request has no device token.
    public static let missingDeviceToken = RejectionReason(rawValue: "MissingDeviceToken")
    /// 400: the topic is missing; the certificate covers several.
    public static let missingTopic = RejectionReason(rawValue: "MissingTopic")
    /// 400: the request has no payload.
    public static let payloadEmpty = RejectionReason(rawValue: "PayloadEmpty")
    /// 400: pushing to this topic is not allowed, or the key does not cover it.
    public static let topicDisallowed = RejectionReason(rawValue: "TopicDisallowed")
    /// 403: the certificate is invalid.
    public static let badCertificate = RejectionReason(rawValue: "BadCertificate")
    /// 403: the certificate belongs to the other environment.
    public static let badCertificateEnvironment = RejectionReason(rawValue: "BadCertificateEnvironment")
    /// 403: the key belongs to the other environment.
    ///
    /// APNs sends this spelling. Apple's page has `BadEnvironmentKeyIdInToken`, which is equal to it.
    public static let badEnvironmentKeyInToken = RejectionReason(rawValue: "BadEnvironmentKeyInToken")
    /// 403: the provider token is older than an hour; a fresh one is needed (or the clock is wrong).
    public static let expiredProviderToken = RejectionReason(rawValue: "ExpiredProviderToken")
    /// 403: the action is not allowed for this account.
    public static let forbidden = RejectionReason(rawValue: "Forbidden")
    /// 403: the provider token's signature, key id or team id is wrong, or the key was revoked.
    public static let invalidProviderToken = RejectionReason(rawValue: "InvalidProviderToken")
    /// 403: neither a provider token nor a certificate was given.
    public static let missingProviderToken = RejectionReason(rawValue: "MissingProviderToken")
    /// 403: the connection is bound to another key; a new connection is needed.
    public static let unrelatedKeyIDInToken = RejectionReason(rawValue: "UnrelatedKeyIdInToken")
    /// 404: the path of the request is wrong.
    public static let badPath = RejectionReason(rawValue: "BadPath")
    /// 405: the method of the request is wrong.
    public static let methodNotAllowed = RejectionReason(rawValue: "MethodNotAllowed")
    /// 410: the device token has expired.
    public static let expiredToken = RejectionReason(rawValue: "ExpiredToken")
    /// 410: the device token is no longer active for the topic.
    public static let unregistered = RejectionReason(rawValue: "Unregistered")
    /// 413: the payload is too large.
    public static let payloadTooLarge = RejectionReason(rawValue: "PayloadTooLarge")
    /// 429: the provider token was changed more often than every 20 minutes; keep the one in use.
    public static let tooManyProviderTokenUpdates = RejectionReason(rawValue: "TooManyProviderTokenUpdates")
    /// 429: too many pushes in a row to one device token or channel.
    public static let tooManyRequests = RejectionReason(rawValue: "TooManyRequests")
    /// 500: APNs had an internal error.
    public static let internalServerError = RejectionReason(rawValue: "InternalServerError")
    /// 503: APNs is overloaded or down.
    public static let serviceUnavailable = RejectionReason(rawValue: "ServiceUnavailable")
    /// 503: this APNs server is stopping; another one will take the push.
    public static let shutdown = RejectionReason(rawValue: "Shutdown")

    /// 400: broadcast is not enabled for the app in the developer portal.
    ///
    /// APNs sends this spelling. Apple's page has `FeatureNotEnabled`, which is equal to it.
    public static let broadcastFeatureNotEnabled = RejectionReason(rawValue: "BroadcastFeatureNotEnabled")
    /// 400: the channel id is missing.
    public static let missingChannelID = RejectionReason(rawValue: "MissingChannelId")
    /// 400: the channel id is invalid or unknown.
    public static let badChannelID = RejectionReason(rawValue: "BadChannelId")
    /// 400: the channel was deleted.
    public static let channelNotRegistered = RejectionReason(rawValue: "ChannelNotRegistered")
    /// 400: the request's parameters are wrong.
    public static let badRequestParams = RejectionReason(rawValue: "BadRequestParams")
    /// 400: the request's body is wrong.
    public static let badRequestPayload = RejectionReason(rawValue: "BadRequestPayload")
    /// 400: the push type is missing.
    public static let missingPushType = RejectionReason(rawValue: "MissingPushType")
    /// 400: the app has reached its limit of channels.
    public static let cannotCreateChannelConfig = RejectionReason(rawValue: "CannotCreateChannelConfig")
    /// 400: the channel's storage policy is missing or invalid.
    public static let missingChannelQueueSize = RejectionReason(rawValue: "MissingChannelQueueSize")
    /// 403: the certificate does not cover the bundle ID.
    public static let topicMismatch = RejectionReason(rawValue: "TopicMismatch")
}
