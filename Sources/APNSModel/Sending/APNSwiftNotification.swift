#if canImport(FoundationEssentials)
    public import struct FoundationEssentials.UUID
#else
    public import struct Foundation.UUID
#endif

// The calls and names of APNSwift that people try first. All are unavailable, so that the compiler names the replacement
// of each. `Docs/ComingFrom.md` lists the others.
//
// The types exist only so that a call as APNSwift's documentation shows it has one error, about the call. No body runs,
// because nothing that is unavailable can be called.

extension PushSender {
    /// APNSwift's name of `send(_:to:)` for alerts.
    @available(*, unavailable, renamed: "send(_:to:)", message: "pass PushNotification(topic:alert:)")
    @discardableResult
    public func sendAlertNotification(
        _ notification: APNSwiftNotification,
        deviceToken: String
    ) async throws -> Receipt { fatalError() }

    /// APNSwift's name of `send(_:to:)` for background pushes.
    @available(*, unavailable, renamed: "send(_:to:)", message: "pass PushNotification.background(topic:)")
    @discardableResult
    public func sendBackgroundNotification(
        _ notification: APNSwiftNotification,
        deviceToken: String
    ) async throws -> Receipt { fatalError() }

    /// APNSwift's name of `send(_:to:)`, with a notification of this library.
    @available(*, unavailable, renamed: "send(_:to:)")
    @discardableResult
    public func sendAlertNotification(
        _ notification: PushNotification,
        deviceToken: String
    ) async throws -> Receipt { fatalError() }

    /// APNSwift's name of `send(_:to:)`, with a notification of this library.
    @available(*, unavailable, renamed: "send(_:to:)")
    @discardableResult
    public func sendBackgroundNotification(
        _ notification: PushNotification,
        deviceToken: String
    ) async throws -> Receipt { fatalError() }

    /// APNSwift's name of `send(_:to:)` for calls.
    @available(*, unavailable, renamed: "send(_:to:)", message: "pass PushNotification.voip(topic:)")
    @discardableResult
    public func sendVoIPNotification(
        _ notification: APNSwiftNotification,
        deviceToken: String
    ) async throws -> Receipt { fatalError() }

    /// APNSwift's name of `send(_:to:)` for updates of complications.
    @available(*, unavailable, renamed: "send(_:to:)", message: "pass PushNotification.complication(topic:)")
    @discardableResult
    public func sendComplicationNotification(
        _ notification: APNSwiftNotification,
        deviceToken: String
    ) async throws -> Receipt { fatalError() }

    /// APNSwift's name of `send(_:to:)` for File Providers.
    @available(*, unavailable, renamed: "send(_:to:)", message: "pass PushNotification.fileProvider(topic:)")
    @discardableResult
    public func sendFileProviderNotification(
        _ notification: APNSwiftNotification,
        deviceToken: String
    ) async throws -> Receipt { fatalError() }

    /// APNSwift's name of `send(_:to:)` for updates of a Live Activity.
    @available(
        *,
        unavailable,
        renamed: "send(_:to:)",
        message: "pass PushNotification.liveActivityUpdate(topic:contentState:) or liveActivityEnd(topic:contentState:)"
    )
    @discardableResult
    public func sendLiveActivityNotification(
        _ notification: some Any,
        deviceToken: String
    ) async throws -> Receipt { fatalError() }

    /// APNSwift's name of `send(_:to:)` for the start of a Live Activity.
    @available(
        *,
        unavailable,
        renamed: "send(_:to:)",
        message: "pass PushNotification.liveActivityStart(topic:attributesType:attributes:contentState:alert:)"
    )
    @discardableResult
    public func sendStartLiveActivityNotification(
        _ notification: some Any,
        deviceToken: String
    ) async throws -> Receipt { fatalError() }
}

/// Stands for APNSwift's notifications.
@available(*, unavailable, renamed: "PushNotification")
public struct APNSwiftNotification {
    /// As APNSwift's alert.
    public init(
        alert: APNSAlertNotificationContent,
        expiration: Expiration,
        priority: Priority,
        topic: String,
        payload: some Encodable = EmptyPayload(),
        badge: Int? = nil,
        sound: Sound? = nil,
        threadID: String? = nil,
        category: String? = nil,
        mutableContent: Double? = nil,
        targetContentID: String? = nil,
        interruptionLevel: InterruptionLevel? = nil,
        relevanceScore: Double? = nil,
        apnsID: UUID? = nil
    ) { fatalError() }

    /// As APNSwift's background push.
    public init(expiration: Expiration, topic: String, payload: some Encodable = EmptyPayload(), apnsID: UUID? = nil) {
        fatalError()
    }

    /// As APNSwift's push to a token of PushKit.
    public init(
        expiration: Expiration,
        priority: Priority,
        appID: String,
        payload: some Encodable = EmptyPayload(),
        apnsID: UUID? = nil
    ) { fatalError() }

    /// As APNSwift's push to a complication or a File Provider.
    public init(expiration: Expiration, appID: String, payload: some Encodable = EmptyPayload(), apnsID: UUID? = nil) {
        fatalError()
    }
}

/// APNSwift's name of ``PushNotification``.
@available(*, unavailable, renamed: "PushNotification")
public typealias APNSAlertNotification = APNSwiftNotification

/// APNSwift's name of `PushNotification.background(topic:)`.
@available(*, unavailable, renamed: "PushNotification.background(topic:)")
public typealias APNSBackgroundNotification = APNSwiftNotification

/// APNSwift's name of ``Alert``.
@available(*, unavailable, renamed: "Alert")
public struct APNSAlertNotificationContent {
    /// A text, or the key of one.
    public enum StringValue {
        /// A text: the `title`, `subtitle` or `body` of ``Alert``.
        case raw(String)
        /// A key: `titleLocKey`, `subtitleLocKey` or `locKey` of ``Alert``, and their arguments.
        case localized(key: String, arguments: [String])
    }

    /// As APNSwift's.
    public init(
        title: StringValue? = nil,
        subtitle: StringValue? = nil,
        body: StringValue? = nil,
        launchImage: String? = nil
    ) { fatalError() }
}

/// APNSwift's value for no payload of your own.
@available(*, unavailable, message: "leave it out: PushNotification.custom(_:) adds values of your own")
public struct EmptyPayload: Encodable {
    /// As APNSwift's.
    public init() {}
}

extension Expiration {
    /// APNSwift's name of ``immediate``.
    @available(*, unavailable, renamed: "immediate")
    public static var immediately: Expiration { .immediate }

    /// APNSwift's name of ``at(secondsSince1970:)``.
    @available(*, unavailable, renamed: "at(secondsSince1970:)")
    public static func timeIntervalSince1970InSeconds(_ seconds: Int) -> Expiration { fatalError() }
}

extension Priority {
    /// APNSwift's name of ``immediate``.
    @available(*, unavailable, renamed: "immediate")
    public static var immediately: Priority { .immediate }

    /// APNSwift's name of ``conserve``.
    @available(*, unavailable, renamed: "conserve")
    public static var consideringDevicePower: Priority { .conserve }
}
