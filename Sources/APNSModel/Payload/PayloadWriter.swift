/// Writes the typed fields directly to bytes. Every push runs this code, so it uses no coder and no dictionary.
///
/// Each member is written with a comma before it. The opening brace of an object then replaces the first comma.
///
/// A number that is not finite is an error even if validation is skipped, because JSON cannot represent it.
struct PayloadWriter: ~Copyable {
    private(set) var json = JSONByteWriter()
    /// The position of the badge, or where one can be inserted.
    private(set) var badge = BadgePosition(range: 0..<0)

    /// Starts the root object.
    mutating func openRoot() {
        self.json.byte(JSONByte.openObject)
    }

    /// - Parameter timestamp: called for a Live Activity without a timestamp of its own.
    mutating func aps(
        _ content: borrowing APSContent,
        _ rule: PushType.Rule,
        timestamp: () -> Int64
    ) throws(ValidationError) {
        self.json.literal("\"aps\":")
        let start = self.begin()
        self.badge.range = start + 1..<start + 1
        if content.hasRare, let activity = content.rare?.liveActivity {
            try self.liveActivity(activity, timestamp: timestamp)
        }
        let hasNestedSound = rule.isLiveActivity && content.alert != nil
        if rule.isLiveActivity {
            try self.nestedAlert(content.alert, content.sound)
        } else {
            switch content.alert {
            case .text(let text): self.text(",\"alert\":", text)
            case .dictionary(let box): self.dictionary(box)
            case nil: break
            }
        }
        if let number = content.badge {
            self.json.literal(",\"badge\":")
            let numberStart = self.json.count
            self.json.integer(Int64(number))
            self.badge.range = numberStart..<self.json.count
        }
        if let sound = content.sound, !hasNestedSound {
            try self.sound(sound)
        }
        self.text(",\"thread-id\":", content.threadID)
        self.text(",\"category\":", content.category)
        if content.contentAvailable || rule.implied.contains(.contentAvailable) {
            self.json.literal(",\"content-available\":1")
        }
        if content.mutableContent { self.json.literal(",\"mutable-content\":1") }
        self.text(",\"target-content-id\":", content.targetContentID)
        self.text(",\"interruption-level\":", content.interruptionLevel?.rawValue)
        if let score = content.relevanceScore {
            self.json.literal(",\"relevance-score\":")
            guard self.json.double(score) else {
                throw ValidationError(
                    code: .relevanceScoreInvalid,
                    field: "aps.relevance-score",
                    value: score.description
                )
            }
        }
        self.text(",\"filter-criteria\":", content.filterCriteria)
        if content.contentChanged || rule.implied.contains(.contentChanged) {
            self.json.literal(",\"content-changed\":true")
        }
        if content.hasRare, let rare = content.rare {
            try self.rare(rare, objectStart: start)
        }
        self.end(start)
    }

    /// Ends the root object if there are no custom values.
    mutating func closeRoot() {
        self.json.byte(JSONByte.closeObject)
    }

    /// Swaps text and memory with the encoder of custom values. Called before and after `aps` is written, so that one
    /// buffer holds the whole payload.
    mutating func exchangeText(with encoder: JSONBytesEncoder) {
        swap(&encoder.writer, &self.json)
    }

    // MARK: - Objects

    /// The start of the next object. Its members are written with a comma before each.
    private func begin() -> Int {
        self.json.count
    }

    private mutating func end(_ start: Int) {
        self.json.open(at: start)
        self.json.byte(JSONByte.closeObject)
    }

    @inline(__always)
    private mutating func text(_ key: StaticString, _ value: String?) {
        guard let value else { return }
        self.json.literal(key)
        self.json.string(value)
    }

    private mutating func texts(_ key: StaticString, _ values: [String]?) {
        guard let values else { return }
        self.json.literal(key)
        JSONScalars.strings(values, to: &self.json)
    }

    private mutating func seconds(_ key: StaticString, _ value: Int64?) {
        guard let value else { return }
        self.json.literal(key)
        self.json.integer(value)
    }

    // MARK: - Alert and sound

    /// Reads the fields where they are: a copy of the alert would cost as much as writing it.
    private mutating func dictionary(_ box: APSContent.AlertBox) {
        self.json.literal(",\"alert\":")
        let start = self.begin()
        self.text(",\"title\":", box.alert.title)
        self.text(",\"subtitle\":", box.alert.subtitle)
        self.text(",\"body\":", box.alert.body)
        self.text(",\"launch-image\":", box.alert.launchImage)
        self.text(",\"title-loc-key\":", box.alert.titleLocKey)
        self.texts(",\"title-loc-args\":", box.alert.titleLocArgs)
        self.text(",\"subtitle-loc-key\":", box.alert.subtitleLocKey)
        self.texts(",\"subtitle-loc-args\":", box.alert.subtitleLocArgs)
        self.text(",\"loc-key\":", box.alert.locKey)
        self.texts(",\"loc-args\":", box.alert.locArgs)
        self.end(start)
    }

    /// Writes the form that ActivityKit reads: title and body contain their localisation, and the sound is a member of
    /// the alert.
    private mutating func nestedAlert(_ form: APSContent.AlertForm?, _ sound: Sound?) throws(ValidationError) {
        let alert: Alert
        switch form {
        case .text(let text): alert = Alert(body: text)
        case .dictionary(let box): alert = box.alert
        case nil: return
        }
        self.json.literal(",\"alert\":")
        let start = self.begin()
        self.localised(",\"title\":", alert.title, alert.titleLocKey, alert.titleLocArgs)
        self.text(",\"subtitle\":", alert.subtitle)
        self.localised(",\"body\":", alert.body, alert.locKey, alert.locArgs)
        self.text(",\"launch-image\":", alert.launchImage)
        self.text(",\"subtitle-loc-key\":", alert.subtitleLocKey)
        self.texts(",\"subtitle-loc-args\":", alert.subtitleLocArgs)
        if let sound { try self.sound(sound) }
        self.end(start)
    }

    private mutating func localised(_ key: StaticString, _ text: String?, _ locKey: String?, _ locArgs: [String]?) {
        guard locKey != nil || locArgs != nil else {
            return self.text(key, text)
        }
        self.json.literal(key)
        let start = self.begin()
        self.text(",\"loc-key\":", locKey)
        self.texts(",\"loc-args\":", locArgs)
        self.end(start)
    }

    private mutating func sound(_ sound: Sound) throws(ValidationError) {
        guard let volume = sound.criticalVolume else {
            return self.text(",\"sound\":", sound.name)
        }
        self.json.literal(",\"sound\":{\"critical\":1,\"name\":")
        self.json.string(sound.name)
        self.json.literal(",\"volume\":")
        guard self.json.double(volume) else {
            throw ValidationError(code: .volumeOutOfRange, field: "aps.sound.volume", value: volume.description)
        }
        self.json.byte(JSONByte.closeObject)
    }

    // MARK: - Rare fields

    private mutating func liveActivity(
        _ activity: LiveActivityContent,
        timestamp: () -> Int64
    ) throws(ValidationError) {
        if let event = activity.event {
            self.seconds(",\"timestamp\":", activity.timestamp ?? timestamp())
            self.text(",\"event\":", event.rawValue)
        } else {
            self.seconds(",\"timestamp\":", activity.timestamp)
        }
        try self.object(",\"content-state\":", activity.contentState, field: "aps.content-state")
        self.text(",\"attributes-type\":", activity.attributesType)
        try self.object(",\"attributes\":", activity.attributes, field: "aps.attributes")
        self.seconds(",\"stale-date\":", activity.staleDate)
        self.seconds(",\"dismissal-date\":", activity.dismissalDate)
        if activity.inputPushToken { self.json.literal(",\"input-push-token\":1") }
        self.text(",\"input-push-channel\":", activity.inputPushChannel?.rawValue)
    }

    private mutating func rare(_ rare: APSContent.Rare, objectStart: Int) throws(ValidationError) {
        self.text(",\"ptt-push-type\":", rare.pushToTalk)
        if let accessory = rare.accessory {
            self.text(",\"encryptedData\":", accessory.encryptedData)
            self.text(",\"sessionIdentifier\":", accessory.sessionIdentifier)
            self.text(",\"keyID\":", accessory.keyID)
            self.text(",\"messageIndex\":", String(accessory.messageIndex))
        }
        guard !rare.members.isEmpty else { return }
        self.json.open(at: objectStart)
        var isFirst = self.json.count == objectStart + 1
        var keys = Set(JSONParser.leadingMembers(self.json.bytes(from: objectStart)).map(\.key))
        for member in rare.members {
            guard keys.insert(member.key).inserted else {
                throw ValidationError(
                    code: .customKeyDuplicate,
                    field: "aps." + ValidationError.shortened(member.key)
                )
            }
            if !isFirst { self.json.byte(JSONByte.comma) }
            isFirst = false
            self.json.string(member.key)
            self.json.byte(JSONByte.colon)
            try self.value(member.value, field: "aps." + ValidationError.shortened(member.key))
        }
    }

    /// Writes a value of the app that must be an object.
    private mutating func object(
        _ key: StaticString,
        _ value: (any Encodable & Sendable)?,
        field: String
    ) throws(ValidationError) {
        guard let value else { return }
        self.json.literal(key)
        let start = self.json.count
        try self.value(value, field: field)
        guard self.json[start] == JSONByte.openObject else {
            throw ValidationError(code: .customNotAnObject, field: field, value: "\(type(of: value))")
        }
    }

    private mutating func value(_ value: some Encodable, field: String) throws(ValidationError) {
        let encoder = JSONBytesEncoder()
        swap(&encoder.writer, &self.json)
        defer { swap(&encoder.writer, &self.json) }
        try encoder.lone(value, field: field)
    }
}
