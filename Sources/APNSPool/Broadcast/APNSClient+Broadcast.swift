public import APNSModel

/// Options for one broadcast.
public struct BroadcastOptions: Sendable, Hashable {
    /// The time limit from the call to its outcome; nil uses the client's default.
    public var deadline: Duration?
    /// Sent as `apns-request-id` with each attempt and used as the outcome's `apnsID`; nil generates one.
    public var requestID: APNSID?
    /// Skips the checks of `PreparedPush.validateForBroadcast(storagePolicy:)` except that of the bundle id. Use it if
    /// Apple relaxes a rule.
    public var skippingValidation: Bool

    /// - Parameters:
    ///   - deadline: The time limit for the whole broadcast; nil uses the client's default.
    ///   - requestID: Sent as `apns-request-id`; nil generates one.
    ///   - skippingValidation: Skips the checks except that of the bundle id.
    public init(
        deadline: Duration? = nil,
        requestID: APNSID? = nil,
        skippingValidation: Bool = false
    ) {
        self.deadline = deadline
        self.requestID = requestID
        self.skippingValidation = skippingValidation
    }
}

extension APNSClient {
    /// Sends an update or the end of Live Activities to all devices that subscribe to a channel.
    ///
    /// ```swift
    /// let score = PushNotification(topic: "com.example.app", pushType: .liveactivity, rawPayload: json)
    /// let outcome = await client.broadcast(score, to: try ChannelID("dHN0LXNyY2gtY2hubA=="))
    /// ```
    /// A broadcast uses the host and connections of pushes, and ends like a push: with exactly one outcome, by its
    /// deadline. A broadcast that may have been processed is not resent unless `retry.resendsUnknown` is set. Accepted
    /// means that APNs accepted it, however many subscribers there are.
    ///
    /// APNs limits how often it accepts a broadcast to one channel; Apple's engineers advise at most one a second. It
    /// responds to more frequent ones with 429 `TooManyRequests`, which the outcome reports with `retryAfter`. The order
    /// of arrival is not guaranteed: devices order broadcasts by the payload's `timestamp`.
    ///
    /// - Parameters:
    ///   - push: A push of the type `liveactivity` with the event `update` or `end`, prepared in any way. Any other
    ///     push ends as `notSent` with the code `validation`. Without a priority and expiration, it is sent with 10 and
    ///     `immediate`.
    ///   - channel: A channel from `channels.create`. It must belong to the push's app and the client's environment.
    ///   - options: Deadline, id and checks.
    /// - Returns: The broadcast's single outcome.
    public func broadcast(
        _ push: PreparedPush,
        to channel: ChannelID,
        options: BroadcastOptions = BroadcastOptions()
    ) async -> PushOutcome {
        do {
            if options.skippingValidation {
                try BundleID.check(push.bundleID)
            } else {
                try push.validateForBroadcast()
            }
        } catch {
            return .failed(.validation(error, apnsID: options.requestID))
        }
        return await SendLoop(push, to: channel, options, self.runtime.sending).run()
    }

    /// Broadcasts a notification of up to 5,120 bytes. A notification that cannot be broadcast ends as `notSent` with
    /// the code `validation`.
    public func broadcast(
        _ notification: PushNotification,
        to channel: ChannelID,
        options: BroadcastOptions = BroadcastOptions()
    ) async -> PushOutcome {
        let push: PreparedPush
        do {
            var notification = notification
            if notification.topic == nil { notification.topic = self.defaultTopic }
            push = try notification.preparedForBroadcast(skippingValidation: options.skippingValidation)
        } catch {
            return .failed(.validation(error, apnsID: options.requestID))
        }
        return await SendLoop(push, to: channel, options, self.runtime.sending).run()
    }
}
