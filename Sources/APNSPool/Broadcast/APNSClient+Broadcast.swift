public import APNSModel

/// What may be said about one broadcast beyond its content and its channel.
public struct BroadcastOptions: Sendable, Hashable {
    /// How long it may take in all, from the call to its outcome, the wait for the channel's turn included; nil takes
    /// the client's default.
    public var deadline: Duration?
    /// Sent as `apns-request-id` with each try, and the outcome's `apnsID`; nil has one made.
    public var requestID: APNSID?
    /// The least time since the broadcast before it to the same channel; nil takes
    /// ``APNSClientConfiguration/broadcastSpacing``. Zero: it goes at once, before all that wait.
    public var spacing: Duration?
    /// Leaves out the checks of `PreparedPush.validateForBroadcast(storagePolicy:)` but that of the bundle id, for the day
    /// on which Apple relaxes one.
    public var skippingValidation: Bool

    /// - Parameters:
    ///   - deadline: how long it may take in all; nil takes the client's default.
    ///   - requestID: sent as `apns-request-id`; nil has one made.
    ///   - spacing: the least time since the broadcast before it; nil takes the client's setting.
    ///   - skippingValidation: leaves out the checks but that of the bundle id.
    public init(
        deadline: Duration? = nil,
        requestID: APNSID? = nil,
        spacing: Duration? = nil,
        skippingValidation: Bool = false
    ) {
        self.deadline = deadline
        self.requestID = requestID
        self.spacing = spacing
        self.skippingValidation = skippingValidation
    }
}

extension APNSClient {
    /// Sends an update, or the end, of Live Activities to all devices that subscribe to a channel.
    ///
    /// ```swift
    /// let score = PushNotification(topic: "com.example.app", pushType: .liveactivity, rawPayload: json)
    /// let outcome = await client.broadcast(score, to: try ChannelID("dHN0LXNyY2gtY2hubA=="))
    /// ```
    /// It goes to the host that pushes go to, over the same connections, and ends as a push does: in exactly one outcome,
    /// by its deadline; what may have been processed is not sent again. Accepted means that APNs took it, with however
    /// many subscribers. Broadcasts to one channel are sent one after the other,
    /// ``APNSClientConfiguration/broadcastSpacing`` apart; one whose turn would come after its deadline fails at once
    /// (`queueFull`, with `retryAfter`). Which of two arrives first is not promised: devices go by the payload's
    /// `timestamp`.
    ///
    /// - Parameters:
    ///   - push: of the type `liveactivity`, with the event `update` or `end`, prepared in any way; one that is no broadcast
    ///     ends as `validation`, not sent. Without a priority and expiration it goes with 10 and `immediate`.
    ///   - channel: from `channels.create`. It must belong to the push's app and the client's environment.
    ///   - options: deadline, id and spacing.
    /// - Returns: its one outcome.
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
        return await BroadcastSend(push, to: channel, options, self.runtime.sending).run()
    }

    /// The same for a notification, which may have up to 5,120 bytes; one that is no broadcast ends as `validation`, not
    /// sent.
    public func broadcast(
        _ notification: PushNotification,
        to channel: ChannelID,
        options: BroadcastOptions = BroadcastOptions()
    ) async -> PushOutcome {
        let push: PreparedPush
        do {
            push = try notification.preparedForBroadcast(skippingValidation: options.skippingValidation)
        } catch {
            return .failed(.validation(error, apnsID: options.requestID))
        }
        return await BroadcastSend(push, to: channel, options, self.runtime.sending).run()
    }
}
