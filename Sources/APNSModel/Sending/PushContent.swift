/// The content of a push: a ``PushNotification``, which is encoded and checked when it is sent, or a ``PreparedPush``,
/// which is already encoded and checked.
///
/// A type of your own only needs to implement ``prepared()``.
public protocol PushContent: Sendable {
    /// The checked bytes and headers.
    ///
    /// - Throws: `ValidationError` for content that APNs would reject or ignore.
    func prepared() throws(ValidationError) -> PreparedPush

    /// The checked bytes and headers, for a sender that has a topic for content without one. The default ignores the
    /// topic.
    ///
    /// - Parameter defaultTopic: the sender's ``PushSender/defaultTopic``.
    /// - Throws: `ValidationError`, as ``prepared()``.
    func prepared(defaultTopic: String?) throws(ValidationError) -> PreparedPush

    /// Delivers the push with the sender's `deliver`. The generic `deliver` and `send` of ``PushSender`` call this; bulk
    /// calls use ``prepared()``. The default prepares the push and delivers the result.
    consuming func deliver(
        with sender: some PushSender,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async -> PushOutcome
}

extension PushContent {
    /// Prepares content that has its own topic.
    @inlinable
    public func prepared(defaultTopic: String?) throws(ValidationError) -> PreparedPush { try self.prepared() }

    /// Prepares the push and delivers the result. Content that cannot be prepared ends as `validation`, not sent.
    @inlinable
    public consuming func deliver(
        with sender: some PushSender,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async -> PushOutcome {
        await self.deliverPrepared(with: sender, to: token, options: options)
    }

    @inlinable
    consuming func deliverPrepared(
        with sender: some PushSender,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async -> PushOutcome {
        let push: PreparedPush
        do throws(ValidationError) {
            push = try self.prepared(defaultTopic: sender.defaultTopic)
        } catch {
            return .failed(.validation(error, apnsID: options.apnsID))
        }
        return await sender.deliver(push, to: token, options: options)
    }
}

extension PreparedPush: PushContent {
    /// Returns this push.
    @inlinable
    public func prepared() -> PreparedPush { self }

    /// Returns this push, which has its topic.
    @inlinable
    public func prepared(defaultTopic: String?) -> PreparedPush { self }

    /// Delivers this push with the sender.
    @inlinable
    public consuming func deliver(
        with sender: some PushSender,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async -> PushOutcome {
        await sender.deliver(self, to: token, options: options)
    }
}

extension PushNotification: PushContent {
    /// Encodes and checks the notification. ``prepared(skippingValidation:now:)`` describes the checks.
    ///
    /// - Returns: checked bytes and headers, for any number of devices.
    /// - Throws: `ValidationError`: the first error found.
    public func prepared() throws(ValidationError) -> PreparedPush {
        try self.prepared(skippingValidation: false)
    }

    /// Encodes and checks the notification with the sender's topic, unless it has its own.
    ///
    /// - Throws: `ValidationError`: the first error found.
    public func prepared(defaultTopic: String?) throws(ValidationError) -> PreparedPush {
        guard self.topic == nil else { return try self.prepared() }
        var notification = self
        notification.topic = defaultTopic
        return try notification.prepared()
    }

    /// Delivers the notification with the sender, which prepares it.
    @inlinable
    public consuming func deliver(
        with sender: some PushSender,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async -> PushOutcome {
        await sender.deliver(self, to: token, options: options)
    }
}
