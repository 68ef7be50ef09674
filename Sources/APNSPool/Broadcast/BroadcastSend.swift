import APNSModel
import HTTP2Wire
import SupervisedPool

/// One broadcast to a channel. It has already been validated.
final class BroadcastSend: SendLoop, RequestLoop {
    private let broadcast: PreparedPush
    private let channel: ChannelID
    private let spacing: Duration

    init(_ broadcast: PreparedPush, to channel: ChannelID, _ options: BroadcastOptions, _ context: SendContext) {
        let id = options.requestID ?? context.ids.next()
        self.broadcast = broadcast
        self.channel = channel
        self.spacing = options.spacing ?? context.live.settings.broadcastSpacing
        super.init(
            context,
            id: id,
            deadline: options.deadline,
            context.monitor.tracing.broadcast(broadcast, to: channel, id: id)
        )
    }

    override var noun: String { "broadcasts" }

    override var mustPrepare: Bool { true }

    /// Waits until the client runs, then until the broadcast's send time.
    override func prepare() async -> PushOutcome? {
        if let outcome = await self.waitUntilRunning() { return outcome }
        let clock = self.context.clock
        let pacer = self.context.pacer
        let key = BroadcastPaceMachine.Channel(bundleID: self.broadcast.bundleID, id: self.channel.rawValue)
        let now = clock.now
        switch pacer.take(key, spacing: self.spacing, now: now, deadline: self.history.deadline) {
        case .at(let sendTime) where sendTime == now:
            return nil
        case .at(let sendTime):
            _ = await self.context.lifecycle.ended.wait(until: sendTime, clock: clock)
            guard Task.isCancelled else { return nil }
            pacer.cancel(key, sendTime: sendTime, spacing: self.spacing)
            return self.fail(.cancelled, "the sending task was cancelled while the broadcast waited for its send time")
        case .tooLate(let sendTime):
            return self.fail(
                .queueFull,
                "the deadline is earlier than the send time: broadcasts to one channel are sent \(self.spacing) apart",
                retryAfter: now.duration(to: sendTime)
            )
        }
    }

    override func expiry() -> AttemptEnd? { self.context.expiry(of: self.broadcast) }

    override var checkoutRequest: CheckoutRequest {
        CheckoutRequest(bytes: self.broadcast.payload.count, atFront: self.history.isResend)
    }

    func request(authorization: HeaderBlock?) -> HTTP2Request {
        BroadcastRequests.broadcast(
            self.broadcast,
            to: self.channel,
            id: self.history.id,
            authority: self.context.configuration.environment.authority,
            credential: authorization
        )
    }
}
