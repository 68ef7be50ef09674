#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

// Consuming, so that a chain of modifiers changes one value in place. A plain `return self` would still copy it.
extension PushNotification {
    /// The visible text of the notification: `aps.alert` as a dictionary. Replaces a previous alert.
    public consuming func alert(_ alert: Alert) -> PushNotification {
        self.content.alert = .dictionary(APSContent.AlertBox(alert))
        return consume self
    }

    /// The short form of an alert: a text that becomes the body.
    public consuming func alert(_ text: String) -> PushNotification {
        self.content.alert = .text(text)
        return consume self
    }

    /// The number on the app's icon. 0 removes the badge; a negative number is rejected. Default: the badge does not
    /// change.
    public consuming func badge(_ number: Int) -> PushNotification {
        self.content.badge = number
        return consume self
    }

    /// A sound file by name, or `default`.
    public consuming func sound(_ name: String) -> PushNotification {
        self.content.sound = .named(name)
        return consume self
    }

    /// A sound, with its volume if it is critical. A volume outside 0...1 is rejected (`volumeOutOfRange`).
    public consuming func sound(_ sound: Sound) -> PushNotification {
        self.content.sound = sound
        return consume self
    }

    /// Notifications with equal thread ids are grouped.
    public consuming func threadID(_ id: String) -> PushNotification {
        self.content.threadID = id
        return consume self
    }

    /// A category that the app registered. It provides the notification's buttons.
    public consuming func category(_ identifier: String) -> PushNotification {
        self.content.category = identifier
        return consume self
    }

    /// Whether the app's service extension runs, so that it can change the notification before it is shown.
    public consuming func mutableContent(_ enabled: Bool = true) -> PushNotification {
        self.content.mutableContent = enabled
        return consume self
    }

    /// Whether the app is woken in the background. An alert push may set it in addition to its alert.
    public consuming func contentAvailable(_ enabled: Bool = true) -> PushNotification {
        self.content.contentAvailable = enabled
        return consume self
    }

    /// Whether WidgetKit reloads. Pushes of the types `widgets` and `controls` set this automatically.
    public consuming func contentChanged(_ enabled: Bool = true) -> PushNotification {
        self.content.contentChanged = enabled
        return consume self
    }

    /// The window or scene to bring forward.
    public consuming func targetContentID(_ id: String) -> PushNotification {
        self.content.targetContentID = id
        return consume self
    }

    /// How much the notification may interrupt the user: `aps.interruption-level`. Default: the system assumes
    /// `active`.
    public consuming func interruptionLevel(_ level: InterruptionLevel) -> PushNotification {
        self.content.interruptionLevel = level
        return consume self
    }

    /// The rank in a summary, from 0 to 1. Live Activities accept any finite number.
    public consuming func relevanceScore(_ score: Double) -> PushNotification {
        self.content.relevanceScore = score
        return consume self
    }

    /// The text by which a Focus filter decides whether to show the notification.
    public consuming func filterCriteria(_ criteria: String) -> PushNotification {
        self.content.filterCriteria = criteria
        return consume self
    }

    /// A key inside `aps` that has no function here, for keys that Apple adds later:
    ///
    ///     PushNotification(topic: "com.grasscove.Fern", alert: "Hi").aps(key: "new-key", 1)
    ///
    /// If the key is already written, `prepared()` throws `customKeyDuplicate`. Put the app's own values beside `aps`
    /// with `custom`: the system drops unknown keys inside `aps`.
    public consuming func aps(key: String, _ value: some Encodable & Sendable) -> PushNotification {
        self.content.changeRare { $0.members.append(APSContent.Rare.Member(key: key, value: value)) }
        return consume self
    }

    /// The header `apns-priority`. Default: APNs assumes 10; background pushes get 5.
    public consuming func priority(_ priority: Priority) -> PushNotification {
        self.ownPriority = priority
        return consume self
    }

    /// The header `apns-expiration`. Default: `immediate` for `voip` and `pushtotalk`, otherwise `systemDefault`.
    public consuming func expiration(_ expiration: Expiration) -> PushNotification {
        self.ownExpiration = expiration
        return consume self
    }

    /// The header `apns-expiration`, counted from this call: APNs stores the push for this duration and then drops it.
    ///
    /// - Parameter duration: at most 30 days, rounded up to a whole second; 0 or less means `immediate`.
    public consuming func expires(in duration: Duration) -> PushNotification {
        self.ownExpiration = .in(duration)
        return consume self
    }

    /// The header `apns-collapse-id`, at most 64 bytes, checked by `prepared()`.
    public consuming func collapseID(_ id: String) -> PushNotification {
        self.ownCollapseID = id
        return consume self
    }

    /// The header `apns-collapse-id`, already checked.
    public consuming func collapseID(_ id: CollapseID) -> PushNotification {
        self.ownCollapseID = id.rawValue
        return consume self
    }

    /// Changes the push type. Topic suffix, default headers and checks change with it; explicitly set values stay.
    public consuming func pushType(_ pushType: PushType) -> PushNotification {
        self.type = pushType
        return consume self
    }

    /// Adds the fields of a value beside `aps`.
    ///
    /// The value must encode as a JSON object. Its keys must differ from `aps` and from those of other custom values.
    /// You may call this more than once.
    ///
    /// - Parameters:
    ///   - value: the fields. If they cannot be encoded, preparing the notification throws (`notEncodable`,
    ///     `customNotAnObject`).
    ///   - encoder: determines how dates, data and keys are written; the value is then encoded now. Nil, the default,
    ///     is faster and writes as Foundation's `JSONEncoder` does by default: a `Date` as seconds since 2001, `Data`
    ///     as base64. Keys keep the order in which the value encodes them. They are sorted if its `encode(to:)` sets a
    ///     key twice, uses `superEncoder()`, reads `codingPath`, or writes to an earlier container again.
    public consuming func custom(
        _ value: some Encodable & Sendable,
        encoder: JSONEncoder? = nil
    ) -> PushNotification {
        self.customs.append(Custom(nil, value, encoder))
        return consume self
    }

    /// Adds one value under a key beside `aps`.
    ///
    /// - Parameters:
    ///   - key: the key; `aps` is reserved for Apple.
    ///   - value: the value. If it cannot be encoded, preparing the notification throws (`notEncodable`).
    ///   - encoder: as for ``custom(_:encoder:)``.
    public consuming func custom(
        key: String,
        _ value: some Encodable & Sendable,
        encoder: JSONEncoder? = nil
    ) -> PushNotification {
        self.customs.append(Custom(key, value, encoder))
        return consume self
    }
}
