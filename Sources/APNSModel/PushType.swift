/// What kind of push it is: the header `apns-push-type`. It must describe the payload truly.
///
/// Open: Apple has added a type in most years. An unknown one is sent as given, without a topic suffix.
/// Source: Apple, "Sending notification requests to APNs". Coded as its string.
public struct PushType: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
    public let rawValue: String

    public init(rawValue: String) {
        self.rawValue = rawValue
    }

    public var description: String { rawValue }

    /// Anything the user notices: an alert, a badge, a sound.
    public static let alert = PushType(rawValue: "alert")
    /// Wakes the app in the background. Always priority 5.
    public static let background = PushType(rawValue: "background")
    /// An incoming call (PushKit). Not stored by default: a late call is of no use.
    public static let voip = PushType(rawValue: "voip")
    /// A watchOS complication (PushKit).
    public static let complication = PushType(rawValue: "complication")
    /// Changes in a File Provider's storage.
    public static let fileprovider = PushType(rawValue: "fileprovider")
    /// Device management. The topic is the UID of the MDM certificate.
    public static let mdm = PushType(rawValue: "mdm")
    /// Starts, updates or ends a Live Activity.
    public static let liveactivity = PushType(rawValue: "liveactivity")
    /// Asks a Location Push extension where the device is.
    public static let location = PushType(rawValue: "location")
    /// Push to Talk. Not stored by default.
    public static let pushtotalk = PushType(rawValue: "pushtotalk")
    /// Reloads widgets.
    public static let widgets = PushType(rawValue: "widgets")
    /// Reloads controls.
    public static let controls = PushType(rawValue: "controls")
    /// Forwards a notification to an accessory.
    public static let accessory = PushType(rawValue: "accessory")

    /// What Apple says about one push type.
    struct Rule: Sendable {
        var type: PushType
        /// Follows the bundle ID in the topic.
        var topicSuffix = ""
        /// Bytes of the encoded payload.
        var payloadLimit = PushType.commonPayloadLimit
        /// The priorities that APNs takes; where Apple says nothing, all three.
        var priorities: [Priority] = [.immediate, .conserve, .low]
        /// What is sent if the caller names none; nil leaves the header out.
        var defaultPriority: Priority?
        var defaultExpiration = Expiration.systemDefault
        /// The payload of these types has no `aps` of its own.
        var omitsEmptyAPS = false
    }

    static let commonPayloadLimit = 4_096

    /// The one place that knows the types. The order is by frequency, since the look-up is a scan.
    static let rules: [Rule] = [
        Rule(type: .alert),
        Rule(type: .background, priorities: [.conserve], defaultPriority: .conserve),
        Rule(
            type: .voip,
            topicSuffix: ".voip",
            payloadLimit: 5_120,
            priorities: [.immediate],
            defaultExpiration: .immediate
        ),
        Rule(type: .liveactivity, topicSuffix: ".push-type.liveactivity", priorities: [.immediate, .conserve]),
        Rule(type: .complication, topicSuffix: ".complication"),
        Rule(type: .fileprovider, topicSuffix: ".pushkit.fileprovider", omitsEmptyAPS: true),
        Rule(type: .mdm, omitsEmptyAPS: true),
        Rule(type: .location, topicSuffix: ".location-query", priorities: [.immediate, .conserve]),
        Rule(
            type: .pushtotalk,
            topicSuffix: ".voip-ptt",
            priorities: [.immediate],
            defaultExpiration: .immediate
        ),
        Rule(type: .widgets, topicSuffix: ".push-type.widgets"),
        Rule(type: .controls, topicSuffix: ".push-type.controls"),
        Rule(type: .accessory, topicSuffix: ".push-type.accessory"),
    ]

    /// The rule of this type. An unknown type gets no suffix, every priority and the largest limit that Apple names.
    var rule: Rule {
        for rule in Self.rules where rule.type == self {
            return rule
        }
        return Rule(type: self, payloadLimit: 5_120)
    }

    /// The types Apple documents.
    public static var known: [PushType] { rules.map(\.type) }

    /// What follows the bundle ID in the topic of this type, with its dot; empty if nothing does.
    public var topicSuffix: String { rule.topicSuffix }

    /// The most bytes of payload APNs accepts for this type.
    public var payloadLimit: Int { rule.payloadLimit }

    /// The priorities APNs accepts for this type.
    public var allowedPriorities: [Priority] { rule.priorities }
}
