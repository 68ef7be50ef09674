/// What a notification says: the dictionary `aps.alert`. Nil fields are left out.
///
/// The keys ending in `LocKey` name entries of the app's `Localizable.strings`; the `Args` replace their format
/// specifiers in order. `locKey` is the body's. Source: Apple, "Generating a remote notification", table 2.
///
/// In a Live Activity's push the same value is written in the form that ActivityKit reads, with `title` and `body`
/// holding `loc-key` and `loc-args`; the flat keys would be ignored there without a word. Only title and body exist
/// then. Source: Apple, "Starting and updating Live Activities with ActivityKit push notifications".
public struct Alert: Sendable, Hashable {
    /// A short line above the text: `title`.
    public var title: String?
    /// A second line between title and text: `subtitle`.
    public var subtitle: String?
    /// The text: `body`.
    public var body: String?
    /// The file name of a launch image, with or without extension.
    public var launchImage: String?
    /// The title's entry in the app's localised strings: `title-loc-key`.
    public var titleLocKey: String?
    /// What replaces the title's format specifiers, in order: `title-loc-args`.
    public var titleLocArgs: [String]?
    /// The subtitle's entry in the app's localised strings: `subtitle-loc-key`.
    public var subtitleLocKey: String?
    /// What replaces the subtitle's format specifiers, in order: `subtitle-loc-args`.
    public var subtitleLocArgs: [String]?
    /// The text's entry in the app's localised strings: `loc-key`.
    public var locKey: String?
    /// What replaces the text's format specifiers, in order: `loc-args`.
    public var locArgs: [String]?

    /// Nil for nearly every alert.
    private var legacyBox: LegacyBox?
}

// Outside, so that the compiler's own initialiser is there to be called: assigning the fields one by one copies them all
// once more in the end.
extension Alert {
    /// All parameters may be left out; each becomes the property of its name.
    public init(
        title: String? = nil,
        subtitle: String? = nil,
        body: String? = nil,
        launchImage: String? = nil,
        titleLocKey: String? = nil,
        titleLocArgs: [String]? = nil,
        subtitleLocKey: String? = nil,
        subtitleLocArgs: [String]? = nil,
        locKey: String? = nil,
        locArgs: [String]? = nil
    ) {
        self.init(
            title: title,
            subtitle: subtitle,
            body: body,
            launchImage: launchImage,
            titleLocKey: titleLocKey,
            titleLocArgs: titleLocArgs,
            subtitleLocKey: subtitleLocKey,
            subtitleLocArgs: subtitleLocArgs,
            locKey: locKey,
            locArgs: locArgs,
            legacyBox: nil
        )
    }
}

// Keys of old systems. They stand behind one reference, so that all other alerts stay small to copy.
extension Alert {
    struct Legacy: Sendable, Hashable {
        var action: String?
        var actionLocKey: String?
        var summaryArg: String?
        var summaryArgCount: Int?
    }

    fileprivate indirect enum LegacyBox: Sendable, Hashable {
        case fields(Legacy)
    }

    var legacy: Legacy? {
        guard case .fields(let fields) = self.legacyBox else { return nil }
        return fields
    }

    private mutating func change(_ body: (inout Legacy) -> Void) {
        var fields = self.legacy ?? Legacy()
        body(&fields)
        self.legacyBox = fields == Legacy() ? nil : .fields(fields)
    }

    /// The label of the action button of a notification to a website in Safari (before web push); see
    /// `PushNotification.urlArgs(_:)`. Source: Apple, "Notification Programming Guide for Websites".
    public var action: String? {
        get { self.legacy?.action }
        set { self.change { $0.action = newValue } }
    }

    /// The key of the action button's label: of iOS before 10, ignored since. Source: Apple, "Local and Remote
    /// Notification Programming Guide".
    public var actionLocKey: String? {
        get { self.legacy?.actionLocKey }
        set { self.change { $0.actionLocKey = newValue } }
    }

    /// What a group's summary names: iOS 12 to 14, ignored since. Source: Apple, "Generating a remote notification".
    public var summaryArg: String? {
        get { self.legacy?.summaryArg }
        set { self.change { $0.summaryArg = newValue } }
    }

    /// How many items the notification adds to its group's summary: iOS 12 to 14, ignored since.
    public var summaryArgCount: Int? {
        get { self.legacy?.summaryArgCount }
        set { self.change { $0.summaryArgCount = newValue } }
    }
}

/// What a notification sounds like: `aps.sound`.
///
/// Source: Apple, "Generating a remote notification", table 3 for critical alerts.
public struct Sound: Sendable, Hashable {
    /// A file in the app's bundle or in Library/Sounds, or `default`.
    public var name: String
    /// From 0 (silent) to 1 (full) for a critical sound, which plays even if the device is muted and needs an
    /// entitlement; nil for a normal sound.
    public var criticalVolume: Double?

    /// The system's sound.
    public static let `default` = Sound(name: "default", criticalVolume: nil)

    /// A sound file by name.
    public static func named(_ name: String) -> Sound {
        Sound(name: name, criticalVolume: nil)
    }

    /// A critical sound. `volume` outside 0...1 is refused by validation.
    public static func critical(name: String = "default", volume: Double = 1) -> Sound {
        Sound(name: name, criticalVolume: volume)
    }
}

/// How much a notification may interrupt: `aps.interruption-level`. Open.
///
/// Source: Apple, "Generating a remote notification", table 1.
public struct InterruptionLevel: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
    public let rawValue: String

    public init(rawValue: String) {
        self.rawValue = rawValue
    }

    public var description: String { self.rawValue }

    /// Shown in the list without light or sound.
    public static let passive = InterruptionLevel(rawValue: "passive")
    /// What the system assumes.
    public static let active = InterruptionLevel(rawValue: "active")
    /// Needs an entitlement.
    public static let timeSensitive = InterruptionLevel(rawValue: "time-sensitive")
    /// Needs an entitlement.
    public static let critical = InterruptionLevel(rawValue: "critical")
}
