/// The type of a push: the header `apns-push-type`. It must match the payload.
///
/// Open: Apple has added a type in most years. An unknown type is sent as given, without a topic suffix. Coded as its
/// string, also as a key.
/// Source: Apple, "Sending notification requests to APNs".
public struct PushType: RawRepresentable, Sendable, Hashable, Codable, CodingKeyRepresentable, CustomStringConvertible {
    public let rawValue: String

    public init(rawValue: String) {
        self.rawValue = rawValue
    }

    public var description: String { self.rawValue }

    /// Content that the user notices: an alert, a badge, a sound.
    public static let alert = PushType(rawValue: "alert")
    /// Wakes the app in the background. Always priority 5.
    public static let background = PushType(rawValue: "background")
    /// An incoming call (PushKit). Not stored by default, because a late call is useless.
    public static let voip = PushType(rawValue: "voip")
    /// A watchOS complication (PushKit).
    public static let complication = PushType(rawValue: "complication")
    /// Changes in a File Provider's storage.
    public static let fileprovider = PushType(rawValue: "fileprovider")
    /// Device management. The topic is the UID of the MDM certificate.
    public static let mdm = PushType(rawValue: "mdm")
    /// Starts, updates or ends a Live Activity.
    public static let liveactivity = PushType(rawValue: "liveactivity")
    /// Asks a Location Push extension for the device's location.
    public static let location = PushType(rawValue: "location")
    /// Push to Talk. Not stored by default.
    public static let pushtotalk = PushType(rawValue: "pushtotalk")
    /// Reloads widgets.
    public static let widgets = PushType(rawValue: "widgets")
    /// Reloads controls.
    public static let controls = PushType(rawValue: "controls")
    /// Forwards a notification to an accessory.
    public static let accessory = PushType(rawValue: "accessory")

    /// Apple's rules for one push type. A class, so that a lookup costs one reference.
    final class Rule: Sendable {
        let type: PushType
        /// The suffix after the bundle ID in the topic.
        let topicSuffix: String
        /// The most bytes of the encoded payload.
        let payloadLimit: Int
        /// The priorities that APNs accepts; all three if Apple names none.
        let priorities: [Priority]
        /// The priority that is sent if the caller sets none; nil leaves the header out.
        let defaultPriority: Priority?
        let defaultExpiration: Expiration
        /// The typed keys of `aps` that have a meaning for this type. Raw keys are not checked.
        let allowed: APSFields
        /// The keys of `aps` without which the push has no effect; they are always written.
        let implied: APSFields
        /// A key beside `aps` without which the push has no effect. The payloads of these types have no `aps`.
        let rootKey: String?
        /// Whether this is a Live Activity: `aps` has the event, and title and body contain their localisation.
        let isLiveActivity: Bool
        let takesCollapseID: Bool
        /// The values of `aps.event` that are rejected.
        let refusedEvents: [LiveActivityEvent]

        init(
            type: PushType,
            topicSuffix: String = "",
            payloadLimit: Int = PushType.commonPayloadLimit,
            priorities: [Priority] = [.immediate, .conserve, .low],
            defaultPriority: Priority? = nil,
            defaultExpiration: Expiration = .systemDefault,
            allowed: APSFields = .common,
            implied: APSFields = [],
            rootKey: String? = nil,
            isLiveActivity: Bool = false,
            takesCollapseID: Bool = true,
            refusedEvents: [LiveActivityEvent] = []
        ) {
            self.type = type
            self.topicSuffix = topicSuffix
            self.payloadLimit = payloadLimit
            self.priorities = priorities
            self.defaultPriority = defaultPriority
            self.defaultExpiration = defaultExpiration
            self.allowed = allowed
            self.implied = implied
            self.rootKey = rootKey
            self.isLiveActivity = isLiveActivity
            self.takesCollapseID = takesCollapseID
            self.refusedEvents = refusedEvents
        }
    }

    static let commonPayloadLimit = 4_096
    static let largestPayloadLimit = 5_120
    private static let liveActivitySuffix = ".push-type.liveactivity"

    /// The only table of push types. Ordered by frequency, because a lookup scans it.
    ///
    /// Sources: Apple, "Sending notification requests to APNs" (topics, priorities, sizes) and the articles of the
    /// frameworks that receive the pushes: PushKit, ActivityKit, WidgetKit, File Provider, Push to Talk, MDM.
    static let rules: [Rule] = [
        Rule(type: .alert),
        Rule(
            type: .background,
            priorities: [.conserve],
            defaultPriority: .conserve,
            allowed: .common.subtracting(.visible),
            implied: .contentAvailable
        ),
        Rule(
            type: .voip,
            topicSuffix: ".voip",
            payloadLimit: PushType.largestPayloadLimit,
            priorities: [.immediate],
            defaultExpiration: .immediate
        ),
        Rule(
            type: .liveactivity,
            topicSuffix: liveActivitySuffix,
            priorities: [.immediate, .conserve],
            allowed: .ofLiveActivities,
            isLiveActivity: true
        ),
        Rule(type: .complication, topicSuffix: ".complication"),
        Rule(
            type: .fileprovider,
            topicSuffix: ".pushkit.fileprovider",
            allowed: [],
            rootKey: "container-identifier"
        ),
        Rule(type: .mdm, allowed: [], rootKey: "mdm"),
        Rule(type: .location, topicSuffix: ".location-query", priorities: [.immediate, .conserve]),
        Rule(
            type: .pushtotalk,
            topicSuffix: ".voip-ptt",
            priorities: [.immediate],
            defaultExpiration: .immediate,
            allowed: .common.union(.pushToTalk)
        ),
        Rule(
            type: .widgets,
            topicSuffix: ".push-type.widgets",
            allowed: .common.subtracting(.visible),
            implied: .contentChanged
        ),
        Rule(
            type: .controls,
            topicSuffix: ".push-type.controls",
            allowed: .common.subtracting(.visible),
            implied: .contentChanged
        ),
        Rule(type: .accessory, topicSuffix: ".push-type.accessory", allowed: .accessory),
    ]

    /// The rule for a Live Activity's push to a broadcast channel. It allows more bytes and every priority, requires
    /// some headers and forbids others. A broadcast cannot start an activity.
    ///
    /// Source: Apple, "Sending broadcast push notification requests to APNs". The page only calls the expiration
    /// required; that APNs rejects a missing one was observed.
    static let broadcastRule = Rule(
        type: .liveactivity,
        topicSuffix: liveActivitySuffix,
        payloadLimit: PushType.largestPayloadLimit,
        defaultPriority: .immediate,
        defaultExpiration: .immediate,
        allowed: .ofLiveActivities,
        isLiveActivity: true,
        takesCollapseID: false,
        refusedEvents: [.start]
    )

    /// The rule of this type. An unknown type gets no suffix, every priority, every key and the largest limit that
    /// Apple names.
    var rule: Rule {
        for rule in Self.rules where rule.type == self {
            return rule
        }
        return Rule(type: self, payloadLimit: Self.largestPayloadLimit, allowed: .all)
    }

    /// The types that Apple documents.
    public static var known: [PushType] { self.rules.map(\.type) }

    /// The suffix after the bundle ID in the topic of this type, with its dot; empty if there is none.
    public var topicSuffix: String { self.rule.topicSuffix }

    /// The most payload bytes that APNs accepts for this type. A broadcast may have 5,120.
    public var payloadLimit: Int { self.rule.payloadLimit }

    /// The most payload bytes that APNs accepts for a broadcast.
    package static var broadcastPayloadLimit: Int { self.broadcastRule.payloadLimit }

    /// The priorities that APNs accepts for this type.
    public var allowedPriorities: [Priority] { self.rule.priorities }
}
