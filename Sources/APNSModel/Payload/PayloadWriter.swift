/// Writes the typed fields straight to bytes. This is the hot path of every push: no coder, no dictionary.
///
/// Each member is written with a comma before it; where an object begins, its brace takes the place of the first comma.
///
/// A number that is not finite is a typed error even if validation is skipped, since JSON cannot hold it.
struct PayloadWriter: ~Copyable {
    private(set) var json: JSONByteWriter
    /// Where the badge stands, or can be put.
    private(set) var badge = BadgeSlot(range: 0..<0)

    /// Begins the root object.
    init(capacity: Int) {
        json = JSONByteWriter(capacity: capacity)
        json.byte(JSONByte.openObject)
    }

    /// - Parameter timestamp: called for a Live Activity without a timestamp of its own.
    mutating func aps(
        _ content: borrowing APSContent,
        _ rule: PushType.Rule,
        timestamp: () -> Int64
    ) throws(ValidationError) {
        json.literal("\"aps\":")
        let start = begin()
        badge.range = start + 1..<start + 1
        if content.hasRare, let activity = content.rare?.liveActivity {
            try liveActivity(activity, timestamp: timestamp)
        }
        let hasNestedSound = rule.isLiveActivity && content.alert != nil
        if rule.isLiveActivity {
            try nestedAlert(content.alert, content.sound)
        } else {
            switch content.alert {
            case .text(let text): self.text(",\"alert\":", text)
            case .dictionary(let alert): dictionary(alert)
            case nil: break
            }
        }
        if let number = content.badge {
            json.literal(",\"badge\":")
            let numberStart = json.count
            json.integer(Int64(number))
            badge.range = numberStart..<json.count
        }
        if let sound = content.sound, !hasNestedSound {
            try self.sound(sound)
        }
        text(",\"thread-id\":", content.threadID)
        text(",\"category\":", content.category)
        if content.contentAvailable || rule.implied.contains(.contentAvailable) {
            json.literal(",\"content-available\":1")
        }
        if content.mutableContent { json.literal(",\"mutable-content\":1") }
        text(",\"target-content-id\":", content.targetContentID)
        text(",\"interruption-level\":", content.interruptionLevel?.rawValue)
        if let score = content.relevanceScore {
            json.literal(",\"relevance-score\":")
            guard json.double(score) else {
                throw ValidationError(
                    code: .relevanceScoreInvalid,
                    field: "aps.relevance-score",
                    value: score.description
                )
            }
        }
        text(",\"filter-criteria\":", content.filterCriteria)
        if content.contentChanged || rule.implied.contains(.contentChanged) {
            json.literal(",\"content-changed\":true")
        }
        if content.hasRare, let rare = content.rare {
            try self.rare(rare, objectStart: start)
        }
        end(start)
    }

    /// Ends the root object, if no custom values follow.
    mutating func closeRoot() {
        json.byte(JSONByte.closeObject)
    }

    /// The root object as it stands, still open, for the encoder of custom values.
    consuming func taken() -> JSONByteWriter {
        json
    }

    // MARK: - Objects

    /// Where the object that comes next begins: its members are written with a comma before each.
    private func begin() -> Int {
        json.count
    }

    private mutating func end(_ start: Int) {
        json.open(at: start)
        json.byte(JSONByte.closeObject)
    }

    @inline(__always)
    private mutating func text(_ key: StaticString, _ value: String?) {
        guard let value else { return }
        json.literal(key)
        json.string(value)
    }

    private mutating func texts(_ key: StaticString, _ values: [String]?) {
        guard let values else { return }
        json.literal(key)
        JSONScalars.strings(values, to: &json)
    }

    private mutating func seconds(_ key: StaticString, _ value: Int64?) {
        guard let value else { return }
        json.literal(key)
        json.integer(value)
    }

    // MARK: - Alert and sound

    private mutating func dictionary(_ alert: Alert) {
        json.literal(",\"alert\":")
        let start = begin()
        text(",\"title\":", alert.title)
        text(",\"subtitle\":", alert.subtitle)
        text(",\"body\":", alert.body)
        text(",\"launch-image\":", alert.launchImage)
        text(",\"title-loc-key\":", alert.titleLocKey)
        texts(",\"title-loc-args\":", alert.titleLocArgs)
        text(",\"subtitle-loc-key\":", alert.subtitleLocKey)
        texts(",\"subtitle-loc-args\":", alert.subtitleLocArgs)
        text(",\"loc-key\":", alert.locKey)
        texts(",\"loc-args\":", alert.locArgs)
        if let legacy = alert.legacy { self.legacy(legacy) }
        end(start)
    }

    private mutating func legacy(_ legacy: Alert.Legacy) {
        text(",\"action\":", legacy.action)
        text(",\"action-loc-key\":", legacy.actionLocKey)
        text(",\"summary-arg\":", legacy.summaryArg)
        seconds(",\"summary-arg-count\":", legacy.summaryArgCount.map { Int64($0) })
    }

    /// The form that ActivityKit reads: title and body hold their own localisation, the sound stands beside them.
    private mutating func nestedAlert(_ form: APSContent.AlertForm?, _ sound: Sound?) throws(ValidationError) {
        let alert: Alert
        switch form {
        case .text(let text): alert = Alert(body: text)
        case .dictionary(let dictionary): alert = dictionary
        case nil: return
        }
        json.literal(",\"alert\":")
        let start = begin()
        localised(",\"title\":", alert.title, alert.titleLocKey, alert.titleLocArgs)
        text(",\"subtitle\":", alert.subtitle)
        localised(",\"body\":", alert.body, alert.locKey, alert.locArgs)
        text(",\"launch-image\":", alert.launchImage)
        text(",\"subtitle-loc-key\":", alert.subtitleLocKey)
        texts(",\"subtitle-loc-args\":", alert.subtitleLocArgs)
        if let legacy = alert.legacy { self.legacy(legacy) }
        if let sound { try self.sound(sound) }
        end(start)
    }

    private mutating func localised(_ key: StaticString, _ text: String?, _ locKey: String?, _ locArgs: [String]?) {
        guard locKey != nil || locArgs != nil else {
            return self.text(key, text)
        }
        json.literal(key)
        let start = begin()
        self.text(",\"loc-key\":", locKey)
        texts(",\"loc-args\":", locArgs)
        end(start)
    }

    private mutating func sound(_ sound: Sound) throws(ValidationError) {
        guard let volume = sound.criticalVolume else {
            return text(",\"sound\":", sound.name)
        }
        json.literal(",\"sound\":{\"critical\":1,\"name\":")
        json.string(sound.name)
        json.literal(",\"volume\":")
        guard json.double(volume) else {
            throw ValidationError(code: .volumeOutOfRange, field: "aps.sound.volume", value: volume.description)
        }
        json.byte(JSONByte.closeObject)
    }

    // MARK: - What few pushes have

    private mutating func liveActivity(
        _ activity: LiveActivityContent,
        timestamp: () -> Int64
    ) throws(ValidationError) {
        if let event = activity.event {
            seconds(",\"timestamp\":", activity.timestamp ?? timestamp())
            text(",\"event\":", event.rawValue)
        } else {
            seconds(",\"timestamp\":", activity.timestamp)
        }
        try object(",\"content-state\":", activity.contentState, field: "aps.content-state")
        text(",\"attributes-type\":", activity.attributesType)
        try object(",\"attributes\":", activity.attributes, field: "aps.attributes")
        seconds(",\"stale-date\":", activity.staleDate)
        seconds(",\"dismissal-date\":", activity.dismissalDate)
        if activity.inputPushToken { json.literal(",\"input-push-token\":1") }
        text(",\"input-push-channel\":", activity.inputPushChannel?.rawValue)
    }

    private mutating func rare(_ rare: APSContent.Rare, objectStart: Int) throws(ValidationError) {
        texts(",\"url-args\":", rare.urlArgs)
        text(",\"ptt-push-type\":", rare.pushToTalk)
        if let accessory = rare.accessory {
            text(",\"encryptedData\":", accessory.encryptedData)
            text(",\"sessionIdentifier\":", accessory.sessionIdentifier)
            text(",\"keyID\":", accessory.keyID)
            text(",\"messageIndex\":", String(accessory.messageIndex))
        }
        guard !rare.members.isEmpty else { return }
        json.open(at: objectStart)
        var isFirst = json.count == objectStart + 1
        var keys = Set(JSONParser.leadingMembers(json.bytes(from: objectStart)).map(\.key))
        for member in rare.members {
            guard keys.insert(member.key).inserted else {
                throw ValidationError(
                    code: .customKeyDuplicate,
                    field: "aps." + ValidationError.shortened(member.key)
                )
            }
            if !isFirst { json.byte(JSONByte.comma) }
            isFirst = false
            json.string(member.key)
            json.byte(JSONByte.colon)
            try value(member.value, field: "aps." + ValidationError.shortened(member.key))
        }
    }

    /// A value of the app's that must be an object.
    private mutating func object(
        _ key: StaticString,
        _ value: (any Encodable & Sendable)?,
        field: String
    ) throws(ValidationError) {
        guard let value else { return }
        json.literal(key)
        let start = json.count
        try self.value(value, field: field)
        guard json[start] == JSONByte.openObject else {
            throw ValidationError(code: .customNotAnObject, field: field, value: "\(type(of: value))")
        }
    }

    private mutating func value(_ value: some Encodable, field: String) throws(ValidationError) {
        let encoder = JSONBytesEncoder(writer: JSONByteWriter())
        swap(&encoder.writer, &json)
        defer { swap(&encoder.writer, &json) }
        try encoder.lone(value, field: field)
    }
}
