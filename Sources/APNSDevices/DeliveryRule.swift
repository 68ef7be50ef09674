/// The pages of Apple's documentation that the rules of virtual devices come from.
enum ApplePage {
    private static let root = "https://developer.apple.com/documentation/"
    private static let notifications = root + "usernotifications/"
    static let sending = notifications + "sending-notification-requests-to-apns"
    static let tokens = notifications + "establishing-a-token-based-connection-to-apns"
    static let payload = notifications + "generating-a-remote-notification"
    static let background = notifications + "pushing-background-updates-to-your-app"
    static let responses = notifications + "handling-notification-responses-from-apns"
    static let broadcast = notifications + "sending-broadcast-push-notification-requests-to-apns"
    static let channels = notifications + "sending-channel-management-requests-to-apns"
    static let serviceExtension = notifications + "modifying-content-in-newly-delivered-notifications"
    static let activityPushes =
        root + "activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications"
    static let activities = root + "activitykit/displaying-live-data-with-live-activities"
    static let voip = root + "pushkit/responding-to-voip-notifications-from-pushkit"
    static let pushToTalk = root + "pushtotalk/creating-a-push-to-talk-app"
    static let fileProvider = root + "fileprovider/using-push-notifications-to-signal-changes"
    static let deviceManagement = root + "devicemanagement"
    static let updates = root + "updates/usernotifications"
}

/// Why a push that APNs accepted had no effect on a device.
enum DeliveryRule: String, CaseIterable {
    case notStored = "expiration-zero"
    case expired
    case replacedWhileOffline = "replaced-while-offline"
    case storageFull = "storage-full"
    case channelStoresNothing = "channel-stores-nothing"
    case tokenRemoved = "token-removed"
    case unsubscribed
    case otherTopic = "token-of-another-topic"
    case otherKind = "token-of-another-kind"
    case unknownPushType = "unknown-push-type"
    case notJSON = "payload-not-json"
    case wrongType = "payload-wrong-type"
    case nothingToShow = "nothing-to-show"
    case noContentAvailable = "no-content-available"
    case unknownEvent = "activity-unknown-event"
    case incompleteActivity = "activity-incomplete"
    case noActivity = "no-activity"

    var message: String {
        switch self {
        case .notStored:
            "The device was offline, and apns-expiration was 0: APNs tries once and does not store the push."
        case .expired: "Its apns-expiration passed before the device was online."
        case .replacedWhileOffline:
            "A newer push replaced it while the device was offline."
        case .storageFull: "So many newer pushes are stored for the device that the simulator discarded it."
        case .channelStoresNothing:
            "The device was offline, and the channel's message storage policy is 0: APNs stores none of its broadcasts."
        case .tokenRemoved:
            "The token was removed from the device before the push was delivered. APNs rejects later pushes to such a "
                + "token with 410."
        case .unsubscribed: "The device left the channel before the broadcast was delivered."
        case .otherTopic:
            "The token belongs to another topic. APNs would reject the push with DeviceTokenNotForTopic. Send it with "
                + "the topic for which the app received the token."
        case .otherKind:
            "The token is of another kind: pushes of the type liveactivity need a push-to-start token for the event "
                + "start, and an activity's token for the events update and end. All other types need an app's token."
        case .unknownPushType: "Apple does not document this push type, so nothing is known about its effect."
        case .notJSON: "The payload is not a JSON object."
        case .wrongType: "A key of aps has a value of the wrong JSON type, so nothing is shown."
        case .nothingToShow: "The payload has no alert text, badge or sound, so there is nothing to show."
        case .noContentAvailable: "The background push has no content-available of 1, so it does not wake the app."
        case .unknownEvent: "aps.event must be start, update or end."
        case .incompleteActivity: "The payload lacks a key that a push to a Live Activity needs."
        case .noActivity: "No Live Activity on the device uses this token or channel."
        }
    }

    var source: String {
        switch self {
        case .notStored, .expired, .replacedWhileOffline, .storageFull, .unknownPushType: ApplePage.sending
        case .channelStoresNothing, .unsubscribed: ApplePage.broadcast
        case .tokenRemoved, .otherTopic: ApplePage.responses
        case .notJSON, .wrongType, .nothingToShow: ApplePage.payload
        case .noContentAvailable: ApplePage.background
        case .otherKind, .unknownEvent, .incompleteActivity, .noActivity: ApplePage.activityPushes
        }
    }
}

/// A rule because of which a push had no effect, and details about this push.
struct DeliveryFault: Error, Hashable {
    var rule: DeliveryRule
    var detail: String?
    /// The page that states the rule.
    var source: String

    /// - Parameter source: the page that states the rule; nil for that of `rule`.
    init(_ rule: DeliveryRule, _ detail: String? = nil, source: String? = nil) {
        self.rule = rule
        self.detail = detail
        self.source = source ?? rule.source
    }
}

/// A difference between the model and a real device, or a duty of the app. The raw value is the text.
enum DeviceNote: String, CaseIterable {
    case lowPriority = """
        Not defined by Apple: when a push of priority 5 or 1 is delivered. APNs may group, delay or drop it to save \
        power; here it is delivered at once.
        """
    case missingPushType = """
        Not defined by Apple: how a push without apns-push-type is treated. Here the topic's suffix decides, then \
        whether aps has content-available and nothing visible.
        """
    case storageNotGuaranteed = """
        Apple stores the latest push in most cases, but does not guarantee it, and may change the order. Here the latest \
        one is stored.
        """
    case severalStored = """
        Not defined by Apple: how many pushes APNs stores if it stores several for an app, and their order. Here it \
        stores at most 1,000 for a device, and delivers the oldest first.
        """
    case ownToken = """
        A type with a topic of its own, such as voip, has a device token of its own, which the app gets from another \
        API than its token for notifications. Link that token with the topic of the type.
        """
    case storedPerTopic = """
        Not defined by Apple: whether topics with a suffix, such as .voip, share the one stored notification with \
        their app. Here each topic has its own.
        """
    case unknownInterruptionLevel = """
        Not defined by Apple: what an unknown interruption-level does. Here it is kept as it is.
        """
    case negativeBadge = "Not defined by Apple: a negative badge. Here it leaves the badge unchanged."
    case textAndLocalization = """
        Not defined by Apple: an alert with a text and a loc-key for the same line. Here the text is shown.
        """
    case localizedText = """
        The app's strings are not known here, so a loc-key is shown as the key with its arguments.
        """
    case mutableContent = """
        The app's notification service extension may change a notification with mutable-content before it is shown. \
        Here it is shown as sent; the page decrypts a Web Push message if the device has its keys.
        """
    case backgroundBudget = """
        Not defined by Apple: how many background pushes wake an app. Apple's advice is at most two or three per hour; \
        the system may delay or drop more. Here each of them wakes the app.
        """
    case backgroundWithContent = """
        A background push must not have an alert, badge or sound. APNs may return an error, delay or drop it; here it \
        wakes the app and shows nothing.
        """
    case alertWithoutContent = """
        A push of type alert should have an alert, badge or sound. APNs may return an error, delay or drop it; here it \
        wakes the app.
        """
    case booleanFlag = """
        Not defined by Apple: true instead of 1, for example for content-available. Here it counts as 1.
        """
    case voip = """
        The app must report a call for each VoIP push, or the system ends it and may stop delivering VoIP pushes.
        """
    case pushToTalk = "For each Push to Talk push, the app must report who speaks, or that it left the channel."
    case budget = """
        Not defined by Apple: how many pushes of this type the system hands over (complications, widgets, controls, \
        location). Here each of them counts.
        """
    case linkActivityToken = """
        The app would now send the update token of the started activity to your server. Link a token of the kind \
        activity to continue.
        """
    case startedByApp = """
        This activity was started by its app, so the time of its start is not known. Here it starts when its token is \
        linked or the device subscribes to its channel.
        """
    case defaultDismissal = """
        Not defined by Apple: when exactly an ended activity without dismissal-date leaves the Lock Screen ("up to \
        four hours"). Here it stays for four hours.
        """
    case lateDismissal = """
        Not defined by Apple: a dismissal-date more than four hours after the end. Here the activity stays for four \
        hours.
        """
    case sameTimestamp = """
        Not defined by Apple: two pushes to an activity with the same timestamp. Here the later one is applied.
        """
    case olderEnd = """
        Not defined by Apple: an end with an older timestamp than the last push. Here it is ignored, as an update is.
        """
    case activityBudget = """
        Not defined by Apple: how many pushes of priority 10 an activity may receive per hour. Here each is delivered.
        """
}
