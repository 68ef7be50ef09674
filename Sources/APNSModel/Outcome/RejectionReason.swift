/// Why APNs refused a push: the `reason` in the body of its answer. Open; unknown reasons keep their text.
///
/// Apple's pages and the wire spell three reasons differently, so reasons are compared by meaning: both spellings of one
/// reason are equal, and blanks do not count. Coded as the string that APNs sent.
/// Source: Apple, "Handling notification responses from APNs", "Handling error responses from APNs" (broadcast).
public struct RejectionReason: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
    /// The text that APNs sent.
    public let rawValue: String

    public init(rawValue: String) {
        self.rawValue = rawValue
    }

    public var description: String { rawValue }

    public static func == (left: RejectionReason, right: RejectionReason) -> Bool {
        left.rawValue == right.rawValue || left.canonical == right.canonical
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(canonical)
    }

    /// What is to be done about a rejection, coarsely.
    public struct Disposition: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { rawValue }

        /// The request is wrong and will be refused each time: fix the notification, the topic or the caller.
        public static let fixRequest = Disposition(rawValue: "fix-request")
        /// The device token is no longer valid.
        public static let tokenInvalid = Disposition(rawValue: "token-invalid")
        /// The device token does not fit: most often sandbox and production, or two apps, were mixed up. No reason to
        /// delete tokens.
        public static let tokenOrEnvironment = Disposition(rawValue: "token-or-environment")
        /// The provider token or certificate is at fault, not this push.
        public static let credential = Disposition(rawValue: "credential")
        /// APNs or the connection is at fault: the same push may succeed later.
        public static let retryLater = Disposition(rawValue: "retry-later")
        /// Too many pushes to this one device: pause it, go on with the others.
        public static let pauseDevice = Disposition(rawValue: "pause-device")
    }

    /// The reasons that are documented or were seen on the wire.
    public static var known: [RejectionReason] { table.map(\.reason) }

    /// The status APNs sends the reason with; nil for unknown reasons.
    public var status: Int? { entry?.status }

    /// What the reason means, in a sentence; nil for unknown reasons.
    public var meaning: String? { entry?.meaning }

    /// What is to be done; for an unknown reason or none it follows from the status.
    public static func disposition(of reason: RejectionReason?, status: Int) -> Disposition {
        if let entry = reason?.entry { return entry.disposition }
        switch status {
        case 403: return .credential
        // An unknown reason is no ground for dropping a token.
        case 410: return reason == nil ? .tokenInvalid : .fixRequest
        case 429: return .pauseDevice
        case 500...: return .retryLater
        default: return .fixRequest
        }
    }
}

extension RejectionReason {
    public static let badCollapseID = RejectionReason(rawValue: "BadCollapseId")
    public static let badDeviceToken = RejectionReason(rawValue: "BadDeviceToken")
    public static let badExpirationDate = RejectionReason(rawValue: "BadExpirationDate")
    public static let badMessageID = RejectionReason(rawValue: "BadMessageId")
    public static let badPriority = RejectionReason(rawValue: "BadPriority")
    public static let badTopic = RejectionReason(rawValue: "BadTopic")
    public static let deviceTokenNotForTopic = RejectionReason(rawValue: "DeviceTokenNotForTopic")
    public static let duplicateHeaders = RejectionReason(rawValue: "DuplicateHeaders")
    public static let idleTimeout = RejectionReason(rawValue: "IdleTimeout")
    public static let invalidPushType = RejectionReason(rawValue: "InvalidPushType")
    public static let missingDeviceToken = RejectionReason(rawValue: "MissingDeviceToken")
    public static let missingTopic = RejectionReason(rawValue: "MissingTopic")
    public static let payloadEmpty = RejectionReason(rawValue: "PayloadEmpty")
    public static let topicDisallowed = RejectionReason(rawValue: "TopicDisallowed")
    public static let badCertificate = RejectionReason(rawValue: "BadCertificate")
    public static let badCertificateEnvironment = RejectionReason(rawValue: "BadCertificateEnvironment")
    /// As on the wire; Apple's page says `BadEnvironmentKeyIdInToken`, which is equal to it.
    public static let badEnvironmentKeyInToken = RejectionReason(rawValue: "BadEnvironmentKeyInToken")
    public static let expiredProviderToken = RejectionReason(rawValue: "ExpiredProviderToken")
    public static let forbidden = RejectionReason(rawValue: "Forbidden")
    public static let invalidProviderToken = RejectionReason(rawValue: "InvalidProviderToken")
    public static let missingProviderToken = RejectionReason(rawValue: "MissingProviderToken")
    public static let unrelatedKeyIDInToken = RejectionReason(rawValue: "UnrelatedKeyIdInToken")
    public static let badPath = RejectionReason(rawValue: "BadPath")
    public static let methodNotAllowed = RejectionReason(rawValue: "MethodNotAllowed")
    public static let expiredToken = RejectionReason(rawValue: "ExpiredToken")
    public static let unregistered = RejectionReason(rawValue: "Unregistered")
    public static let payloadTooLarge = RejectionReason(rawValue: "PayloadTooLarge")
    public static let tooManyProviderTokenUpdates = RejectionReason(rawValue: "TooManyProviderTokenUpdates")
    public static let tooManyRequests = RejectionReason(rawValue: "TooManyRequests")
    public static let internalServerError = RejectionReason(rawValue: "InternalServerError")
    public static let serviceUnavailable = RejectionReason(rawValue: "ServiceUnavailable")
    public static let shutdown = RejectionReason(rawValue: "Shutdown")

    /// As on the wire; Apple's page says `FeatureNotEnabled`, which is equal to it.
    public static let broadcastFeatureNotEnabled = RejectionReason(rawValue: "BroadcastFeatureNotEnabled")
    public static let missingChannelID = RejectionReason(rawValue: "MissingChannelId")
    public static let badChannelID = RejectionReason(rawValue: "BadChannelId")
    public static let channelNotRegistered = RejectionReason(rawValue: "ChannelNotRegistered")
    public static let badRequestParams = RejectionReason(rawValue: "BadRequestParams")
    public static let badRequestPayload = RejectionReason(rawValue: "BadRequestPayload")
    public static let missingPushType = RejectionReason(rawValue: "MissingPushType")
    public static let cannotCreateChannelConfig = RejectionReason(rawValue: "CannotCreateChannelConfig")
    public static let missingChannelQueueSize = RejectionReason(rawValue: "MissingChannelQueueSize")
    public static let topicMismatch = RejectionReason(rawValue: "TopicMismatch")
}
