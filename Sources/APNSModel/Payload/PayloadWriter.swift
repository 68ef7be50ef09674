/// The typed fields of `aps`.
struct APSContent: Sendable {
    enum AlertForm: Sendable {
        case text(String)
        case dictionary(Alert)
    }

    var alert: AlertForm?
    var badge: Int?
    var sound: Sound?
    var threadID: String?
    var category: String?
    var contentAvailable = false
    var mutableContent = false
    var targetContentID: String?
    var interruptionLevel: InterruptionLevel?
    var relevanceScore: Double?
    var filterCriteria: String?
    var contentChanged = false

    /// Something the user notices.
    var visibleField: String? {
        if alert != nil { return "aps.alert" }
        if badge != nil { return "aps.badge" }
        return sound == nil ? nil : "aps.sound"
    }

    var isEmpty: Bool {
        visibleField == nil && !contentAvailable && !mutableContent && !contentChanged && threadID == nil
            && category == nil && targetContentID == nil && interruptionLevel == nil && relevanceScore == nil
            && filterCriteria == nil
    }

    /// Checks what APNs or the device would refuse in these fields.
    func validate(for pushType: PushType) throws(ValidationError) {
        if let badge, badge < 0 {
            throw ValidationError(code: .badgeInvalid, field: "aps.badge", value: String(badge))
        }
        if let volume = sound?.criticalVolume, !(0...1).contains(volume) {
            throw ValidationError(code: .volumeOutOfRange, field: "aps.sound.volume", value: volume.description)
        }
        if let score = relevanceScore, pushType != .liveactivity, !(0...1).contains(score) {
            throw ValidationError(
                code: .relevanceScoreInvalid,
                field: "aps.relevance-score",
                value: score.description
            )
        }
        if pushType == .background, let visibleField {
            throw ValidationError(code: .contentNotAllowed, field: visibleField, value: "background")
        }
    }
}

/// Writes the typed fields straight to bytes. This is the hot path of every push: no coder, no dictionary.
///
/// A number that is not finite is a typed error even if validation is skipped, since JSON cannot hold it.
struct PayloadWriter {
    private(set) var json: JSONByteWriter
    private var needsComma = false

    /// Begins the root object.
    init(capacity: Int) {
        json = JSONByteWriter(capacity: capacity)
        json.byte(JSONByte.openObject)
    }

    mutating func aps(_ content: borrowing APSContent) throws(ValidationError) {
        json.literal("\"aps\":{")
        needsComma = false
        switch content.alert {
        case .text(let text): self.text("\"alert\":", text)
        case .dictionary(let alert): dictionary(alert)
        case nil: break
        }
        if let badge = content.badge {
            key("\"badge\":")
            json.integer(Int64(badge))
        }
        if let sound = content.sound {
            try self.sound(sound)
        }
        text("\"thread-id\":", content.threadID)
        text("\"category\":", content.category)
        if content.contentAvailable { key("\"content-available\":1") }
        if content.mutableContent { key("\"mutable-content\":1") }
        text("\"target-content-id\":", content.targetContentID)
        text("\"interruption-level\":", content.interruptionLevel?.rawValue)
        if let score = content.relevanceScore {
            key("\"relevance-score\":")
            guard json.double(score) else {
                throw ValidationError(
                    code: .relevanceScoreInvalid,
                    field: "aps.relevance-score",
                    value: score.description
                )
            }
        }
        text("\"filter-criteria\":", content.filterCriteria)
        if content.contentChanged { key("\"content-changed\":true") }
        json.byte(JSONByte.closeObject)
    }

    /// The finished payload, if no custom values follow.
    consuming func finished() -> [UInt8] {
        json.byte(JSONByte.closeObject)
        return json.bytes
    }

    /// The root object as it stands, still open, for the encoder of custom values.
    consuming func taken() -> JSONByteWriter {
        json
    }

    private mutating func dictionary(_ alert: Alert) {
        key("\"alert\":{")
        needsComma = false
        text("\"title\":", alert.title)
        text("\"subtitle\":", alert.subtitle)
        text("\"body\":", alert.body)
        text("\"launch-image\":", alert.launchImage)
        text("\"title-loc-key\":", alert.titleLocKey)
        texts("\"title-loc-args\":", alert.titleLocArgs)
        text("\"subtitle-loc-key\":", alert.subtitleLocKey)
        texts("\"subtitle-loc-args\":", alert.subtitleLocArgs)
        text("\"loc-key\":", alert.locKey)
        texts("\"loc-args\":", alert.locArgs)
        json.byte(JSONByte.closeObject)
        needsComma = true
    }

    private mutating func sound(_ sound: Sound) throws(ValidationError) {
        guard let volume = sound.criticalVolume else {
            return text("\"sound\":", sound.name)
        }
        key("\"sound\":{\"critical\":1,\"name\":")
        json.string(sound.name)
        json.literal(",\"volume\":")
        guard json.double(volume) else {
            throw ValidationError(code: .volumeOutOfRange, field: "aps.sound.volume", value: volume.description)
        }
        json.byte(JSONByte.closeObject)
    }

    private mutating func key(_ literal: StaticString) {
        if needsComma { json.byte(JSONByte.comma) }
        needsComma = true
        json.literal(literal)
    }

    private mutating func text(_ key: StaticString, _ value: String?) {
        guard let value else { return }
        self.key(key)
        json.string(value)
    }

    private mutating func texts(_ key: StaticString, _ values: [String]?) {
        guard let values else { return }
        self.key(key)
        JSONScalars.strings(values, to: &json)
    }
}
