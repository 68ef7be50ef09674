#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

// Consuming, so that a chain of modifiers changes one value in place. A plain `return self` would copy it all the same.
extension PushNotification {
    /// What the notification says: `aps.alert` as a dictionary. Replaces an alert given before.
    public consuming func alert(_ alert: Alert) -> PushNotification {
        self.content.alert = .dictionary(alert)
        return consume self
    }

    /// The short form of an alert: only a text, which becomes the body.
    public consuming func alert(_ text: String) -> PushNotification {
        self.content.alert = .text(text)
        return consume self
    }

    /// The number on the app's icon; 0 removes it, below 0 is refused. Absent, it stays as it is.
    public consuming func badge(_ number: Int) -> PushNotification {
        self.content.badge = number
        return consume self
    }

    /// A sound file by name, or `default`.
    public consuming func sound(_ name: String) -> PushNotification {
        self.content.sound = .named(name)
        return consume self
    }

    /// A sound, with its volume if it is a critical one. Outside 0...1 the volume is refused (`volumeOutOfRange`).
    public consuming func sound(_ sound: Sound) -> PushNotification {
        self.content.sound = sound
        return consume self
    }

    /// Notifications with the same thread id are grouped.
    public consuming func threadID(_ id: String) -> PushNotification {
        self.content.threadID = id
        return consume self
    }

    /// A category that the app registered, which gives the notification its buttons.
    public consuming func category(_ identifier: String) -> PushNotification {
        self.content.category = identifier
        return consume self
    }

    /// Whether the app's service extension runs and may change the notification before it is shown.
    public consuming func mutableContent(_ enabled: Bool = true) -> PushNotification {
        self.content.mutableContent = enabled
        return consume self
    }

    /// Whether the app is woken in the background. In an alert push it may go along with the alert.
    public consuming func contentAvailable(_ enabled: Bool = true) -> PushNotification {
        self.content.contentAvailable = enabled
        return consume self
    }

    /// Whether WidgetKit reloads. Pushes of the types `widgets` and `controls` say so by themselves.
    public consuming func contentChanged(_ enabled: Bool = true) -> PushNotification {
        self.content.contentChanged = enabled
        return consume self
    }

    /// The window or scene that is brought forward.
    public consuming func targetContentID(_ id: String) -> PushNotification {
        self.content.targetContentID = id
        return consume self
    }

    /// How much the notification may interrupt: `aps.interruption-level`. Absent, the system assumes `active`.
    public consuming func interruptionLevel(_ level: InterruptionLevel) -> PushNotification {
        self.content.interruptionLevel = level
        return consume self
    }

    /// The rank in a summary, from 0 to 1; for Live Activities any finite number.
    public consuming func relevanceScore(_ score: Double) -> PushNotification {
        self.content.relevanceScore = score
        return consume self
    }

    /// What a Focus filter decides by.
    public consuming func filterCriteria(_ criteria: String) -> PushNotification {
        self.content.filterCriteria = criteria
        return consume self
    }

    /// What replaces the placeholders of the website's `urlFormatString`, as many as it has: for notifications to a website
    /// in Safari (before web push). Source: Apple, "Notification Programming Guide for Websites".
    public consuming func urlArgs(_ arguments: [String]) -> PushNotification {
        self.content.changeRare { $0.urlArgs = arguments }
        return consume self
    }

    /// A key inside `aps` that has no function here, for what Apple adds next:
    ///
    ///     PushNotification(topic: "com.grasscove.Fern", alert: "Hi").aps(key: "new-key", 1)
    ///
    /// A key that is written already makes `prepared()` throw `customKeyDuplicate`. The app's own values belong beside
    /// `aps`, see `custom`: inside, the system drops what it does not know.
    public consuming func aps(key: String, _ value: some Encodable & Sendable) -> PushNotification {
        self.content.changeRare { $0.members.append(APSContent.Rare.Member(key: key, value: value)) }
        return consume self
    }

    /// The header `apns-priority`. Absent, APNs assumes 10; background pushes get 5.
    public consuming func priority(_ priority: Priority) -> PushNotification {
        self.urgency = priority
        return consume self
    }

    /// The header `apns-expiration`. Absent, it is `immediate` for `voip` and `pushtotalk`, else `systemDefault`.
    public consuming func expiration(_ expiration: Expiration) -> PushNotification {
        self.storage = expiration
        return consume self
    }

    /// The header `apns-expiration`, counted from this call: APNs keeps the push for so long and then drops it.
    ///
    /// - Parameter duration: at most 30 days; rounded up to a whole second; 0 and less is `immediate`.
    public consuming func expires(in duration: Duration) -> PushNotification {
        self.storage = .in(duration)
        return consume self
    }

    /// The header `apns-collapse-id`, at most 64 bytes, checked by `prepared()`.
    public consuming func collapseID(_ id: String) -> PushNotification {
        self.collapse = id
        return consume self
    }

    /// The header `apns-collapse-id`, checked before.
    public consuming func collapseID(_ id: CollapseID) -> PushNotification {
        self.collapse = id.rawValue
        return consume self
    }

    /// Another push type. Topic suffix, default headers and checks follow it; what was set explicitly stays.
    public consuming func pushType(_ pushType: PushType) -> PushNotification {
        self.type = pushType
        return consume self
    }

    /// Adds the fields of a value beside `aps`. It must encode as a JSON object; its keys must differ from `aps` and
    /// from those of other custom values. May be used more than once.
    ///
    /// - Parameters:
    ///   - value: the fields. What cannot be encoded is told when the notification is prepared (`notEncodable`,
    ///     `customNotAnObject`).
    ///   - encoder: decides how dates, data and keys are written; the value is encoded now. Nil, the default, writes as
    ///     Foundation's `JSONEncoder` does by default: a `Date` as seconds since 2001, `Data` as base64. That is faster.
    ///     Keys keep the order in which the value encodes them. They are sorted if its `encode(to:)` sets a key twice, uses
    ///     `superEncoder()`, reads `codingPath`, or goes back to an earlier container.
    public consuming func custom(
        _ value: some Encodable & Sendable,
        encoder: JSONEncoder? = nil
    ) -> PushNotification {
        if let encoder {
            self.customs.append(.encoded(key: nil, EncodedCustom(value, field: "custom", encoder)))
        } else {
            self.customs.append(.merged(value))
        }
        return consume self
    }

    /// Adds one value under a key beside `aps`.
    ///
    /// - Parameters:
    ///   - key: the key; `aps` is Apple's.
    ///   - value: the value. What cannot be encoded is told when the notification is prepared (`notEncodable`).
    ///   - encoder: as for ``custom(_:encoder:)``.
    public consuming func custom(
        key: String,
        _ value: some Encodable & Sendable,
        encoder: JSONEncoder? = nil
    ) -> PushNotification {
        if let encoder {
            self.customs.append(.encoded(key: key, EncodedCustom(value, field: key, encoder)))
        } else {
            self.customs.append(.member(key, value))
        }
        return consume self
    }
}
