import APNSModel
import APNSTransport
import SupervisedPool

/// One broadcast to a channel. It has already been validated.
struct BroadcastRequest: SendRequest {
    static var noun: String { "broadcasts" }

    let broadcast: PreparedPush
    let channel: ChannelID

    var bytes: Int { self.broadcast.payload.count }

    func expiry(_ context: SendContext) -> AttemptEnd? { context.expiry(of: self.broadcast) }

    func encode(id: APNSID, authorization: HeaderBlock?, _ context: SendContext) -> HTTP2Request {
        BroadcastRequests.broadcast(
            self.broadcast,
            to: self.channel,
            id: id,
            authority: context.configuration.environment.authority,
            credential: authorization
        )
    }
}

extension SendLoop<BroadcastRequest> {
    convenience init(
        _ broadcast: PreparedPush,
        to channel: ChannelID,
        _ options: BroadcastOptions,
        _ context: SendContext
    ) {
        let id = options.requestID ?? context.ids.next()
        self.init(
            BroadcastRequest(broadcast: broadcast, channel: channel),
            context,
            id: id,
            deadline: options.deadline,
            context.monitor.tracing.broadcast(broadcast, to: channel, id: id)
        )
    }
}
