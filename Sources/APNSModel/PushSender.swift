/// What may be said about one delivery beyond the push and its device.
public struct DeliveryOptions: Sendable, Hashable {
    /// How long the push may take in all, from the call to its outcome; nil takes the client's default.
    public var deadline: Duration?
    /// The id of the push, the same over all attempts; nil has one made.
    public var apnsID: APNSID?
    /// Whom it waits behind when all streams are taken. Default `interactive`.
    public var lane: PushLane
    /// What it is about. Of the pushes with one key, device token and topic
    /// - one is on its way at a time; a newer one waits until that one has its outcome;
    /// - one that was not written yet when a newer one came is not sent: its outcome is `superseded`, not sent;
    /// - a Live Activity's `end` is never superseded;
    /// - timestamps that a client fills in (``PushNotification`` without one of its own) rise, by a second at least.
    ///
    /// The deadline and the task's cancellation hold while it waits. Nil, the default: none of this.
    public var supersedes: SupersedeKey?

    /// - Parameters:
    ///   - deadline: how long the push may take in all; nil takes the client's default.
    ///   - apnsID: the id of the push; nil has one made.
    ///   - lane: whom it waits behind when all streams are taken.
    ///   - supersedes: what it is about; nil: it replaces nothing.
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

/// The two queues for a connection: a one-time code must not wait behind a campaign.
public enum PushLane: Sendable, Hashable {
    /// Goes before all bulk pushes; a fifth of each connection's streams is kept free for it. What single sends are.
    case interactive
    /// Takes turns with other bulk work. What bulk calls are.
    case bulk
}

/// Something that delivers pushes: a client, a recorder in tests, a queue.
///
/// Code that sends should ask for `any PushSender` or `some PushSender`, so that tests can hand in another one.
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
    /// Prepares the notification and delivers the result; one that cannot be prepared ends as `validation`, not sent.
    public func deliver(
        _ notification: consuming PushNotification,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async -> PushOutcome {
        let push: PreparedPush
        do {
            push = try notification.prepared()
        } catch {
            return .failed(.validation(error, apnsID: options.apnsID))
        }
        return await deliver(push, to: token, options: options)
    }

    /// Delivers to a device token given as text; text that is no device token ends as `validation`, not sent.
    public func deliver(
        _ notification: consuming PushNotification,
        to token: some StringProtocol,
        options: DeliveryOptions
    ) async -> PushOutcome {
        let address: DeviceToken
        do {
            address = try DeviceToken(token)
        } catch {
            return .failed(.validation(error, apnsID: options.apnsID))
        }
        return await deliver(notification, to: address, options: options)
    }

    /// Delivers to a device token given as text; text that is no device token ends as `validation`, not sent.
    public func deliver(
        _ push: PreparedPush,
        to token: some StringProtocol,
        options: DeliveryOptions
    ) async -> PushOutcome {
        let address: DeviceToken
        do {
            address = try DeviceToken(token)
        } catch {
            return .failed(.validation(error, apnsID: options.apnsID))
        }
        return await deliver(push, to: address, options: options)
    }
}

// The options spelled out as parameters.
extension PushSender {
    /// Delivers one notification.
    ///
    /// - Parameters:
    ///   - notification: what to send; one that cannot be prepared ends as `validation`, not sent.
    ///   - token: the device.
    ///   - deadline: how long the push may take in all; nil takes the client's default.
    ///   - apnsID: the id of the push; nil has one made.
    /// - Returns: its one outcome.
    @inlinable
    public func deliver(
        _ notification: consuming PushNotification,
        to token: DeviceToken,
        deadline: Duration? = nil,
        apnsID: APNSID? = nil
    ) async -> PushOutcome {
        await deliver(notification, to: token, options: DeliveryOptions(deadline: deadline, apnsID: apnsID))
    }

    /// Delivers one prepared push.
    ///
    /// - Parameters:
    ///   - push: what to send.
    ///   - token: the device.
    ///   - deadline: how long the push may take in all; nil takes the client's default.
    ///   - apnsID: the id of the push; nil has one made.
    /// - Returns: its one outcome.
    @inlinable
    public func deliver(
        _ push: PreparedPush,
        to token: DeviceToken,
        deadline: Duration? = nil,
        apnsID: APNSID? = nil
    ) async -> PushOutcome {
        await deliver(push, to: token, options: DeliveryOptions(deadline: deadline, apnsID: apnsID))
    }

    /// As the form with a `DeviceToken`; text that is no device token ends as `validation`, not sent.
    @inlinable
    public func deliver(
        _ notification: consuming PushNotification,
        to token: some StringProtocol,
        deadline: Duration? = nil,
        apnsID: APNSID? = nil
    ) async -> PushOutcome {
        await deliver(notification, to: token, options: DeliveryOptions(deadline: deadline, apnsID: apnsID))
    }

    /// As the form with a `DeviceToken`; text that is no device token ends as `validation`, not sent.
    @inlinable
    public func deliver(
        _ push: PreparedPush,
        to token: some StringProtocol,
        deadline: Duration? = nil,
        apnsID: APNSID? = nil
    ) async -> PushOutcome {
        await deliver(push, to: token, options: DeliveryOptions(deadline: deadline, apnsID: apnsID))
    }
}

// Sugar: the outcome as a receipt or a thrown error.
extension PushSender {
    /// Sends one notification and returns once APNs has accepted it.
    ///
    /// - Parameters:
    ///   - notification: what to send.
    ///   - token: the device.
    ///   - deadline: how long the push may take in all; nil takes the client's default.
    ///   - apnsID: the id of the push; nil has one made.
    /// - Returns: the receipt.
    /// - Throws: every other outcome; `validation`, not sent, for a notification that cannot be prepared.
    @discardableResult
    @inlinable
    public func send(
        _ notification: consuming PushNotification,
        to token: DeviceToken,
        deadline: Duration? = nil,
        apnsID: APNSID? = nil
    ) async throws(PushError) -> Receipt {
        try await deliver(notification, to: token, deadline: deadline, apnsID: apnsID).get()
    }

    /// Sends one prepared push and returns once APNs has accepted it.
    ///
    /// - Throws: every other outcome.
    @discardableResult
    @inlinable
    public func send(
        _ push: PreparedPush,
        to token: DeviceToken,
        deadline: Duration? = nil,
        apnsID: APNSID? = nil
    ) async throws(PushError) -> Receipt {
        try await deliver(push, to: token, deadline: deadline, apnsID: apnsID).get()
    }

    /// As the form with a `DeviceToken`; text that is no device token is thrown as `validation`, not sent.
    @discardableResult
    @inlinable
    public func send(
        _ notification: consuming PushNotification,
        to token: some StringProtocol,
        deadline: Duration? = nil,
        apnsID: APNSID? = nil
    ) async throws(PushError) -> Receipt {
        try await deliver(notification, to: token, deadline: deadline, apnsID: apnsID).get()
    }

    /// As the form with a `DeviceToken`; text that is no device token is thrown as `validation`, not sent.
    @discardableResult
    @inlinable
    public func send(
        _ push: PreparedPush,
        to token: some StringProtocol,
        deadline: Duration? = nil,
        apnsID: APNSID? = nil
    ) async throws(PushError) -> Receipt {
        try await deliver(push, to: token, deadline: deadline, apnsID: apnsID).get()
    }

    /// Sends one notification with options and returns once APNs has accepted it.
    ///
    /// - Throws: every other outcome.
    @discardableResult
    @inlinable
    public func send(
        _ notification: consuming PushNotification,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async throws(PushError) -> Receipt {
        try await deliver(notification, to: token, options: options).get()
    }

    /// Sends one prepared push with options and returns once APNs has accepted it.
    ///
    /// - Throws: every other outcome.
    @discardableResult
    @inlinable
    public func send(
        _ push: PreparedPush,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async throws(PushError) -> Receipt {
        try await deliver(push, to: token, options: options).get()
    }
}
