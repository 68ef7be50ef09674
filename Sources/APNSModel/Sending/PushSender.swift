/// How one push is delivered: its deadline, its id, its lane, and what it replaces.
public struct DeliveryOptions: Sendable, Hashable {
    /// How long the push may take in all, from the call to its outcome; nil takes the client's default.
    public var deadline: Duration?
    /// The id of the push, the same over all attempts. If nil, the sender generates one.
    public var apnsID: APNSID?
    /// The priority when no stream is free. Default `interactive`.
    public var lane: PushLane
    /// A newer push with the same key replaces this one. Of the pushes with one key, device token and topic
    /// - one is on its way at a time; a newer one waits until that one has its outcome;
    /// - one that was not written yet when a newer one came is not sent: its outcome is `superseded`, not sent;
    /// - a Live Activity's `end` is never superseded;
    /// - timestamps that a client fills in (``PushNotification`` without one of its own) rise, by a second at least.
    ///
    /// The deadline and the task's cancellation hold while it waits. Default nil: nothing is replaced.
    public var supersedes: SupersedeKey?

    /// - Parameters:
    ///   - deadline: how long the push may take in all; nil takes the client's default.
    ///   - apnsID: the id of the push; if nil, the sender generates one.
    ///   - lane: the priority when no stream is free.
    ///   - supersedes: the key of pushes that replace each other; nil: nothing is replaced.
    public init(
        deadline: Duration? = nil,
        apnsID: APNSID? = nil,
        lane: PushLane = .interactive,
        supersedes: SupersedeKey? = nil
    ) {
        self.deadline = deadline
        self.apnsID = apnsID
        self.lane = lane
        self.supersedes = supersedes
    }
}

/// The two priorities for a stream: a one-time code must not wait behind a campaign.
public enum PushLane: Sendable, Hashable {
    /// Goes before all bulk pushes. A fifth of each connection's streams is kept free for it. Single sends use this lane.
    case interactive
    /// Takes turns with other bulk work. Bulk calls use this lane.
    case bulk
}

/// Something that delivers pushes: a client, an app of a group, a recorder in tests, a queue.
///
/// Code that sends should ask for `some PushSender` or `any PushSender`, so that a test can hand in another one. A sender
/// of your own implements one function, `deliver(_:to:options:)` for a ``PreparedPush``; the others call it.
public protocol PushSender: Sendable {
    /// Delivers one prepared push. It never throws: each push ends in exactly one outcome.
    func deliver(_ push: PreparedPush, to token: DeviceToken, options: DeliveryOptions) async -> PushOutcome

    /// Delivers one notification. The default prepares it and delivers the result; a notification that cannot be
    /// prepared ends as `validation`, not sent.
    func deliver(
        _ notification: consuming PushNotification,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async -> PushOutcome
}

extension PushSender {
    /// Not here: without it, the generic `deliver` below would meet the requirement, and call itself for ever.
    @available(*, unavailable, message: "a PushSender implements deliver(_: PreparedPush, to: DeviceToken, options:)")
    public func deliver(_ push: PreparedPush, to token: DeviceToken, options: DeliveryOptions) async -> PushOutcome {
        .failed(PushError(code: .internalFault, certainty: .notSent, message: "the sender delivers nothing"))
    }

    /// Prepares the notification and delivers the result; one that cannot be prepared ends as `validation`, not sent.
    public func deliver(
        _ notification: consuming PushNotification,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async -> PushOutcome {
        await notification.deliverPrepared(with: self, to: token, options: options)
    }

    /// Delivers one push and returns its outcome.
    ///
    ///     let outcome = await client.deliver(notification, to: user.deviceToken)
    ///
    /// - Parameters:
    ///   - push: a notification, which is encoded now, or a prepared push. One that cannot be prepared ends as
    ///     `validation`, not sent.
    ///   - token: the device: a ``DeviceToken`` or its text. Text that is no device token ends as `validation`, not sent.
    ///   - options: the deadline, the id and more; by default the client's.
    /// - Returns: its one outcome.
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
    /// - Throws: `PushError` for every other outcome; `validation`, not sent, for a notification that cannot be prepared
    ///   and for text that is no device token.
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
