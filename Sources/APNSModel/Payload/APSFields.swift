/// A set of keys of `aps`. The table of push types is written in terms of these sets.
struct APSFields: OptionSet, Sendable {
    let rawValue: UInt32

    static let alert = APSFields(rawValue: 1 << 0)
    static let badge = APSFields(rawValue: 1 << 1)
    static let sound = APSFields(rawValue: 1 << 2)
    static let threadID = APSFields(rawValue: 1 << 3)
    static let category = APSFields(rawValue: 1 << 4)
    static let contentAvailable = APSFields(rawValue: 1 << 5)
    static let mutableContent = APSFields(rawValue: 1 << 6)
    static let targetContentID = APSFields(rawValue: 1 << 7)
    static let interruptionLevel = APSFields(rawValue: 1 << 8)
    static let relevanceScore = APSFields(rawValue: 1 << 9)
    static let filterCriteria = APSFields(rawValue: 1 << 10)
    static let contentChanged = APSFields(rawValue: 1 << 11)
    static let pushToTalk = APSFields(rawValue: 1 << 12)
    static let accessory = APSFields(rawValue: 1 << 13)
    static let liveActivity = APSFields(rawValue: 1 << 14)

    static let all = APSFields(rawValue: .max)
    /// Keys with an effect that the user notices.
    static let visible: APSFields = [.alert, .badge, .sound]
    /// All keys except those of a single push type. A key is allowed unless Apple says otherwise.
    static let common = APSFields.all.subtracting([.pushToTalk, .accessory, .liveActivity])
    /// The keys that Apple lists for ActivityKit's pushes.
    static let ofLiveActivities: APSFields = [.alert, .sound, .relevanceScore, .liveActivity]

    /// The names of the keys, for errors.
    private static let names: [(APSFields, String)] = [
        (.alert, "alert"), (.badge, "badge"), (.sound, "sound"), (.threadID, "thread-id"), (.category, "category"),
        (.contentAvailable, "content-available"), (.mutableContent, "mutable-content"),
        (.targetContentID, "target-content-id"), (.interruptionLevel, "interruption-level"),
        (.relevanceScore, "relevance-score"), (.filterCriteria, "filter-criteria"),
        (.contentChanged, "content-changed"), (.pushToTalk, "ptt-push-type"),
        (.accessory, "encryptedData"), (.liveActivity, "event"),
    ]

    /// The name of the set's first key, for an error.
    var firstName: String {
        for (field, name) in Self.names where self.contains(field) {
            return "aps.\(name)"
        }
        return "aps"
    }
}
