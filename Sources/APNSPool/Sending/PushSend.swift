import Synchronization
import APNSModel
import HTTP2Wire
import SupervisedPool

/// Sends one push to a device.
final class PushSend: SendLoop, RequestLoop {
    private let token: DeviceToken
    private let lane: PushLane
    private let key: SupersedeKey?
    /// Prepares the push again with another timestamp, if its timestamp was filled in.
    private let dated: SupersedeQueue.Dated?
    // Unchecked: one task owns the object, and no access begins during another one.
    @exclusivity(unchecked) private var push: PreparedPush
    /// The push's header block. Set with the route, and taken when the attempt is encoded.
    @exclusivity(unchecked) private var block: HeaderBlock?
    @exclusivity(unchecked) private var entry: SupersedeEntry?

    @inline(never)
    init(
        _ push: PreparedPush,
        to token: DeviceToken,
        _ options: borrowing DeliveryOptions,
        dated: SupersedeQueue.Dated?,
        _ context: SendContext
    ) {
        let id = options.apnsID ?? context.ids.next()
        self.push = push
        self.token = token
        self.lane = options.lane
        self.key = options.supersedes
        self.dated = dated
        super.init(
            context,
            id: id,
            deadline: options.deadline,
            context.monitor.tracing.push(push, to: token, id: id)
        )
    }

    override var noun: String { "pushes" }

    // MARK: Supersede queue

    override var mustPrepare: Bool { self.key != nil || super.mustPrepare }

    /// Enters the supersede queue before it waits for the client, so that pushes keep the order of their calls even if
    /// the client starts later.
    override func prepare() async -> PushOutcome? {
        if let key, let outcome = await self.enterQueue(key) { return outcome }
        return await self.waitUntilRunning()
    }

    /// Enters the queue of pushes with this key and waits for this push's turn.
    private func enterQueue(_ key: SupersedeKey) async -> PushOutcome? {
        let queue = self.context.supersedeQueue
        do {
            (self.entry, self.push) = try queue.arrive(self.push, to: self.token, key: key, dated: self.dated)
        } catch {
            let outcome = PushOutcome.failed(.validation(error, apnsID: self.history.id))
            self.finish(outcome)
            return outcome
        }
        switch await self.entry?.wait(until: self.history.deadline, clock: self.context.clock) {
        case .hasTurn?, nil:
            return nil
        case .superseded?:
            return self.fail(.superseded, SupersedeEntry.message)
        case .withdrawn? where Task.isCancelled:
            return self.fail(
                .cancelled,
                "the sending task was cancelled while another push with the same key was in flight"
            )
        case .withdrawn?:
            return self.fail(.deadlineExceeded, "another push with the same key was in flight until the deadline")
        }
    }

    override func claimWrite() -> AttemptEnd? {
        guard let entry, !entry.beginWrite() else { return nil }
        return .notSent(.superseded, SupersedeEntry.message, isFinal: true)
    }

    // MARK: An attempt

    override func nextRoute(now: MonotonicInstant) throws(AttemptEnd) -> SendRoute {
        let (route, block) = try self.context.router.next(for: self.push, now: now)
        self.block = block
        return route
    }

    override func expiry() -> AttemptEnd? { self.context.expiry(of: self.push) }

    override var checkoutRequest: CheckoutRequest {
        CheckoutRequest(
            bytes: self.push.payload.count,
            lane: PoolLane(self.lane),
            atFront: self.history.isResend || self.entry?.isHeir == true
        )
    }

    override var isBulk: Bool { self.lane == .bulk }

    func request(authorization: HeaderBlock?) -> HTTP2Request {
        RequestEncoder.request(
            self.push,
            block: self.block.take() ?? self.context.router.block(for: self.push),
            to: self.token,
            id: self.history.id,
            credential: authorization
        )
    }

    override func evaluate(_ result: StreamResult, of route: SendRoute?) -> AttemptEnd {
        let end = super.evaluate(result, of: route)
        self.context.watchForMassRejection(end, self.token, topic: self.push.topic)
        return end
    }

    // MARK: The end

    override func refused() -> PushOutcome {
        self.context.monitor.refusedPushes.wrappingAdd(1, ordering: .relaxed)
        return super.refused()
    }

    override func finish(_ outcome: PushOutcome) {
        self.context.monitor.reportOutcome(outcome, self.push, self.token)
        super.finish(outcome)
    }

    /// Ends this push's turn, so that the next push with the key may be sent.
    override func leave() {
        self.entry?.end()
        super.leave()
    }
}

extension PoolLane {
    init(_ lane: PushLane) {
        self = lane == .bulk ? .bulk : .interactive
    }
}
