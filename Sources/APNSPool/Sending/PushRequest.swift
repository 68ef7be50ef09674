import APNSModel
import APNSTransport
import SupervisedPool

/// One push to a device.
struct PushRequest: SendRequest {
    static var noun: String { "pushes" }

    private let push: PreparedPush
    private let token: DeviceToken
    let lane: PoolLane
    /// The push's header block. Set with the route, and taken when the attempt is encoded.
    private var block: HeaderBlock?

    init(_ push: PreparedPush, to token: DeviceToken, lane: PoolLane) {
        self.push = push
        self.token = token
        self.lane = lane
    }

    var bytes: Int { self.push.payload.count }

    mutating func nextRoute(_ router: SendRouter, now: MonotonicInstant) throws(AttemptEnd) -> SendRoute {
        let (route, block) = try router.next(for: self.push, now: now)
        self.block = block
        return route
    }

    func expiry(_ context: SendContext) -> AttemptEnd? { context.expiry(of: self.push) }

    mutating func encode(id: APNSID, authorization: HeaderBlock?, _ context: SendContext) -> HTTP2Request {
        RequestEncoder.request(
            self.push,
            block: self.block.take() ?? context.router.block(for: self.push),
            to: self.token,
            id: id,
            credential: authorization
        )
    }

    func evaluate(
        _ result: StreamResult,
        of route: SendRoute?,
        _ history: inout PushHistory,
        _ context: SendContext
    ) -> AttemptEnd {
        let end = context.evaluate(result, of: route, &history)
        context.watchForMassRejection(end, self.token, topic: self.push.topic)
        return end
    }

    func finish(_ outcome: PushOutcome, _ span: CallSpan?, _ context: SendContext) {
        context.monitor.reportOutcome(outcome, self.push, self.token)
        span?.end(outcome)
    }
}

extension SendLoop<PushRequest> {
    @inline(never)
    convenience init(
        _ push: PreparedPush,
        to token: DeviceToken,
        _ options: borrowing DeliveryOptions,
        _ context: SendContext
    ) {
        let id = options.apnsID ?? context.ids.next()
        self.init(
            PushRequest(push, to: token, lane: PoolLane(options.lane)),
            context,
            id: id,
            deadline: options.deadline,
            context.monitor.tracing.push(push, to: token, id: id)
        )
    }
}

extension PoolLane {
    init(_ lane: PushLane) {
        self = lane == .bulk ? .bulk : .interactive
    }
}
