/// The typed fields of `aps`.
struct APSContent: Sendable {
    enum AlertForm: Sendable {
        case text(String)
        case dictionary(AlertBox)
    }

    /// An alert behind one reference: it has ten fields, and copying them costs more than the allocation. An indirect case
    /// would copy them whenever they are read.
    final class AlertBox: Sendable {
        let alert: Alert

        init(_ alert: Alert) {
            self.alert = alert
        }
    }

    var alert: AlertForm?
    var badge: Int?
    var sound: Sound?
    var threadID: String?
    var category: String?
    var contentAvailable = false
    var mutableContent = false
    var contentChanged = false
    var targetContentID: String?
    var interruptionLevel: InterruptionLevel?
    var relevanceScore: Double?
    var filterCriteria: String?
    /// Nil for nearly every push.
    private var rareBox: RareBox?

    /// Fields that few pushes have. They are behind one reference, so that all other pushes are cheap to copy.
    struct Rare: Sendable {
        /// A key of `aps` for which this library has no function, with its value.
        struct Member: Sendable {
            var key: String
            var value: any Encodable & Sendable
        }

        var liveActivity: LiveActivityContent?
        var accessory: AccessoryContent?
        var pushToTalk: String?
        var members: [Member] = []
    }

    private final class RareBox: Sendable {
        let rare: Rare

        init(_ rare: Rare) {
            self.rare = rare
        }
    }

    /// Whether `rare` has any content. Cheaper than reading `rare`.
    var hasRare: Bool { self.rareBox != nil }

    var rare: Rare? { self.rareBox?.rare }

    mutating func changeRare(_ body: (inout Rare) -> Void) {
        var rare = self.rare ?? Rare()
        body(&rare)
        self.rareBox = RareBox(rare)
    }

    mutating func changeLiveActivity(_ body: (inout LiveActivityContent) -> Void) {
        self.changeRare { rare in
            var activity = rare.liveActivity ?? LiveActivityContent()
            body(&activity)
            rare.liveActivity = activity
        }
    }

    /// The keys that are set, without raw keys.
    var fields: APSFields {
        var fields: APSFields = []
        if self.alert != nil { fields.insert(.alert) }
        if self.badge != nil { fields.insert(.badge) }
        if self.sound != nil { fields.insert(.sound) }
        if self.threadID != nil { fields.insert(.threadID) }
        if self.category != nil { fields.insert(.category) }
        if self.contentAvailable { fields.insert(.contentAvailable) }
        if self.mutableContent { fields.insert(.mutableContent) }
        if self.contentChanged { fields.insert(.contentChanged) }
        if self.targetContentID != nil { fields.insert(.targetContentID) }
        if self.interruptionLevel != nil { fields.insert(.interruptionLevel) }
        if self.relevanceScore != nil { fields.insert(.relevanceScore) }
        if self.filterCriteria != nil { fields.insert(.filterCriteria) }
        if let rare = self.rareBox?.rare {
            if rare.pushToTalk != nil { fields.insert(.pushToTalk) }
            if rare.accessory != nil { fields.insert(.accessory) }
            if rare.liveActivity != nil { fields.insert(.liveActivity) }
        }
        return fields
    }

    var hasMembers: Bool {
        guard let rareBox else { return false }
        return !rareBox.rare.members.isEmpty
    }

    var isEmpty: Bool { self.fields.isEmpty && !self.hasMembers }

    /// Checks for content that APNs would reject, or that APNs or the device would silently ignore.
    func validate(_ rule: PushType.Rule) throws(ValidationError) {
        let strangers = self.fields.subtracting(rule.allowed)
        guard strangers.isEmpty else {
            throw ValidationError(
                code: .contentNotAllowed,
                field: strangers.firstName,
                value: ValidationError.shortened(rule.type.rawValue)
            )
        }
        if let badge, badge < 0 {
            throw ValidationError(code: .badgeInvalid, field: "aps.badge", value: String(badge))
        }
        if let volume = self.sound?.criticalVolume, !(0...1).contains(volume) {
            throw ValidationError(code: .volumeOutOfRange, field: "aps.sound.volume", value: volume.description)
        }
        if let score = self.relevanceScore, !rule.isLiveActivity, !(0...1).contains(score) {
            throw ValidationError(
                code: .relevanceScoreInvalid,
                field: "aps.relevance-score",
                value: score.description
            )
        }
        if rule.isLiveActivity {
            try self.validateLiveActivity()
        }
    }

    private func validateLiveActivity() throws(ValidationError) {
        let rare = self.rare
        if let activity = rare?.liveActivity, activity.event != nil {
            try activity.validate(hasAlert: self.alert != nil)
        } else if !self.hasMembers {
            throw ValidationError(code: .contentMissing, field: "aps.event", value: "liveactivity")
        }
        if case .dictionary(let box) = self.alert {
            try box.alert.validateForLiveActivity()
        }
    }
}

extension APSContent {
    init(alert: AlertForm? = nil) {
        self.init(alert: alert, badge: nil, rareBox: nil)
    }
}

/// The content of a push to an accessory.
struct AccessoryContent: Sendable {
    var encryptedData: String
    var sessionIdentifier: String
    var keyID: String
    var messageIndex: UInt64
}

extension Alert {
    /// ActivityKit reads only title and body, each as a text or as a localisation key.
    fileprivate func validateForLiveActivity() throws(ValidationError) {
        let strangers: [(Bool, String)] = [
            (self.subtitle != nil, "subtitle"), (self.launchImage != nil, "launch-image"),
            (self.subtitleLocKey != nil, "subtitle-loc-key"), (self.subtitleLocArgs != nil, "subtitle-loc-args"),
        ]
        for (isSet, name) in strangers where isSet {
            throw ValidationError(code: .contentNotAllowed, field: "aps.alert.\(name)", value: "liveactivity")
        }
        if self.title != nil, self.titleLocKey != nil {
            throw ValidationError(code: .contentContradictory, field: "aps.alert.title", value: "title and titleLocKey")
        }
        if self.body != nil, self.locKey != nil {
            throw ValidationError(code: .contentContradictory, field: "aps.alert.body", value: "body and locKey")
        }
    }
}
