/// Options for one push: its deadline, its id and its lane.
///
/// ```swift
/// let options = DeliveryOptions(deadline: .seconds(5), apnsID: .random())
/// let outcome = await client.deliver(notification, to: deviceToken, options: options)
/// ```
public struct DeliveryOptions: Sendable, Hashable {
    /// The longest time from the call to the outcome; nil for the client's default.
    public var deadline: Duration?
    /// The id of the push, which all its attempts share. If nil, the sender generates one.
    public var apnsID: APNSID?
    /// The priority when no stream is free. Default `interactive`.
    public var lane: PushLane

    /// - Parameters:
    ///   - deadline: the longest time from the call to the outcome; nil for the client's default.
    ///   - apnsID: the id of the push; if nil, the sender generates one.
    ///   - lane: the priority when no stream is free.
    public init(
        deadline: Duration? = nil,
        apnsID: APNSID? = nil,
        lane: PushLane = .interactive
    ) {
        self.deadline = deadline
        self.apnsID = apnsID
        self.lane = lane
    }
}

/// The two priorities for a stream, so that a one-time code does not wait behind a campaign.
public enum PushLane: Sendable, Hashable {
    /// Served before all bulk pushes. A fifth of each connection's streams is reserved for this lane. The default for
    /// single pushes.
    case interactive
    /// Takes turns with other bulk work. The default for bulk calls.
    case bulk
}

/// A type that delivers pushes: a client, an app of a group, a recorder in tests, a queue.
///
/// Your code should accept `some PushSender` or `any PushSender`, so that a test can pass another sender. Your own
/// sender implements one function, `deliver(_:to:options:)` for a ``PreparedPush``; the other functions call it.
public protocol PushSender: Sendable {
    /// Delivers one prepared push. Never throws: each push ends with exactly one outcome.
    func deliver(_ push: PreparedPush, to token: DeviceToken, options: DeliveryOptions) async -> PushOutcome

    /// Delivers one notification. The default implementation prepares it and delivers the result. A notification that
    /// cannot be prepared ends as `validation`, not sent.
    func deliver(
        _ notification: consuming PushNotification,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async -> PushOutcome

    /// The topic of notifications that name none: the app's bundle ID. The default implementation returns nil, and
    /// such a notification then ends as `validation`, not sent.
    ///
    /// If your sender passes pushes on to another one, return that one's topic.
    var defaultTopic: String? { get }
}

extension PushSender {
    /// No topic: each notification must name its own.
    public var defaultTopic: String? { nil }

    /// Unavailable. Without this overload, the generic `deliver` below would satisfy the requirement and call itself
    /// forever.
    @available(*, unavailable, message: "a PushSender implements deliver(_: PreparedPush, to: DeviceToken, options:)")
    public func deliver(_ push: PreparedPush, to token: DeviceToken, options: DeliveryOptions) async -> PushOutcome {
        .failed(PushError(code: .internalFault, certainty: .notSent, message: "the sender delivers nothing"))
    }

    /// Prepares the notification and delivers the result. One that cannot be prepared ends as `validation`, not sent.
    public func deliver(
        _ notification: consuming PushNotification,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async -> PushOutcome {
        await notification.deliverPrepared(with: self, to: token, options: options)
    }

    /// Delivers one push and returns its outcome.
    ///
    /// ```swift
    /// let outcome = await client.deliver(notification, to: deviceToken)
    /// ```
    ///
    /// - Parameters:
    ///   - push: a notification, which is encoded now, or a prepared push. One that cannot be prepared ends as
    ///     `validation`, not sent.
    ///   - token: the device: a ``DeviceToken`` or its text. Text that is not a device token ends as `validation`, not
    ///     sent.
    ///   - options: the deadline, the id and more; by default the client's.
    /// - Returns: the outcome.
    @inlinable
    public func deliver(
        _ push: consuming some PushContent,
        to token: some DeviceTokenConvertible,
        options: DeliveryOptions = DeliveryOptions()
    ) async -> PushOutcome {
        let address: DeviceToken
        do throws(ValidationError) {
            address = try token.deviceToken()
        } catch {
            return .failed(.validation(error, apnsID: options.apnsID))
        }
        return await push.deliver(with: self, to: address, options: options)
    }

    /// Sends one push and returns once APNs has accepted it.
    ///
    ///     let receipt = try await client.send(notification, to: user.deviceToken)
    ///
    /// - Parameters:
    ///   - push: a notification, which is encoded now, or a prepared push.
    ///   - token: the device: a ``DeviceToken`` or its text.
    ///   - options: the deadline, the id and more; by default the client's.
    /// - Returns: the receipt.
    /// - Throws: `PushError` for every other outcome; `validation`, not sent, for a notification that cannot be
    ///   prepared and for text that is not a device token.
    @discardableResult
    @inlinable
    public func send(
        _ push: consuming some PushContent,
        to token: some DeviceTokenConvertible,
        options: DeliveryOptions = DeliveryOptions()
    ) async throws(PushError) -> Receipt {
        try await self.deliver(push, to: token, options: options).get()
    }
}
