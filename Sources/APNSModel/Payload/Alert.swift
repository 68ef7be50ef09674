/// The visible text of a notification: the dictionary `aps.alert`. Nil fields are left out.
///
/// ```swift
/// let alert = Alert(title: "Hey There", body: "Did you see it?")
/// let localised = Alert(titleLocKey: "MOON", locKey: "SEEN_BY_%@", locArgs: ["Ada"])
/// ```
///
/// The keys ending in `LocKey` name entries of the app's `Localizable.strings`; the `Args` replace their format
/// specifiers in order. `locKey` is the key of the body. Source: Apple, "Generating a remote notification", table 2.
///
/// In a push to a Live Activity, the alert is written in the form that ActivityKit reads: `title` and `body` contain
/// `loc-key` and `loc-args`, because ActivityKit silently ignores the flat keys. Only title and body exist there.
/// Source: Apple, "Starting and updating Live Activities with ActivityKit push notifications".
public struct Alert: Sendable, Hashable {
    /// A short line above the body: `title`.
    public var title: String?
    /// A second line, between title and body: `subtitle`.
    public var subtitle: String?
    /// The body: `body`.
    public var body: String?
    /// The file name of a launch image, with or without extension.
    public var launchImage: String?
    /// The key of the title in the app's localised strings: `title-loc-key`.
    public var titleLocKey: String?
    /// The replacements for the title's format specifiers, in order: `title-loc-args`.
    public var titleLocArgs: [String]?
    /// The key of the subtitle in the app's localised strings: `subtitle-loc-key`.
    public var subtitleLocKey: String?
    /// The replacements for the subtitle's format specifiers, in order: `subtitle-loc-args`.
    public var subtitleLocArgs: [String]?
    /// The key of the body in the app's localised strings: `loc-key`.
    public var locKey: String?
    /// The replacements for the body's format specifiers, in order: `loc-args`.
    public var locArgs: [String]?

    /// Occupies no memory.
    private struct Whole: Sendable, Hashable {}
    /// Distinguishes the compiler's memberwise initialiser from the public one.
    private var whole: Whole
}

// In an extension, to keep the compiler's memberwise initialiser. Assigning the fields one by one copies all of them
// once more at the end.
extension Alert {
    /// Creates an alert. All parameters are optional; each sets the property of its name.
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
            whole: Whole()
        )
    }
}

/// The sound of a notification: `aps.sound`.
///
/// Source: Apple, "Generating a remote notification", table 3 for critical alerts.
public struct Sound: Sendable, Hashable {
    /// A file in the app's bundle or in Library/Sounds, or `default`.
    public var name: String
    /// The volume of a critical sound, from 0 (silent) to 1 (full); nil for a normal sound. A critical sound plays even
    /// if the device is muted, and needs an entitlement.
    public var criticalVolume: Double?

    /// The system's sound.
    public static let `default` = Sound(name: "default", criticalVolume: nil)

    /// A sound file by name.
    public static func named(_ name: String) -> Sound {
        Sound(name: name, criticalVolume: nil)
    }

    /// A critical sound. Validation rejects a `volume` outside 0...1.
    public static func critical(name: String = "default", volume: Double = 1) -> Sound {
        Sound(name: name, criticalVolume: volume)
    }
}

/// How much a notification may interrupt the user: `aps.interruption-level`. Open: later versions may add values.
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
    /// The system's default.
    public static let active = InterruptionLevel(rawValue: "active")
    /// Needs an entitlement.
    public static let timeSensitive = InterruptionLevel(rawValue: "time-sensitive")
    /// Needs an entitlement.
    public static let critical = InterruptionLevel(rawValue: "critical")
}
