import APNSModel
import HTTP2Wire
import SupervisedPool

/// Puts the pushes of one grant into batches, and hands each to the connection as soon as it is whole.
struct BatchBuilder {
    private let lease: UnownedLease<ConnectionActor>
    private let collector: BulkCollector
    private let route: SendRoute
    private let isBulk: Bool
    /// How many pushes are expected.
    private let room: Int
    private var batch: PushBatch?
    /// The push whose payload is the batch's.
    private var common: PreparedPush?
    /// How many pushes were added.
    private(set) var count = 0

    init(
        _ lease: UnownedLease<ConnectionActor>,
        collector: BulkCollector,
        route: SendRoute,
        isBulk: Bool,
        room: Int
    ) {
        self.lease = lease
        self.collector = collector
        self.route = route
        self.isBulk = isBulk
        self.room = room
    }

    /// - Parameters:
    ///   - index: what the call names the push.
    ///   - block: the fields that it shares with others.
    mutating func add(
        _ index: Int,
        _ push: PreparedPush,
        _ block: HeaderBlock,
        to token: DeviceToken,
        id: APNSID,
        deadline: MonotonicInstant
    ) {
        var isCommon = self.common?.isIdentical(to: push) ?? false
        if !self.fits(push, block, isCommon: isCommon) {
            self.finish()
            self.batch = self.makeBatch(push, block)
            self.common = push
            isCommon = true
        }
        self.batch?.indices.append(Int32(truncatingIfNeeded: index))
        self.batch?.requests.append(push, isCommon: isCommon, to: token, id: id, deadline: deadline)
        self.count += 1
    }

    /// Hands over what is left.
    mutating func finish() {
        guard let batch else { return }
        self.batch = nil
        self.lease.worker.send(batch)
    }

    /// Whether the push goes with the batch: it needs the same fields, and the batch's payload or one of its own, since
    /// an empty one stands for the batch's.
    private func fits(_ push: PreparedPush, _ block: HeaderBlock, isCommon: Bool) -> Bool {
        guard let batch, batch.indices.count < BulkGroups.groupSize else { return false }
        return isCommon || !push.payload.isEmpty && batch.requests.shared === block
    }

    private func makeBatch(_ push: PreparedPush, _ block: HeaderBlock) -> PushBatch {
        var batch = PushBatch(
            requests: RequestBatch(
                shared: block,
                credential: self.route.authorization,
                body: push.payload,
                isBulk: self.isBulk
            ),
            indices: [],
            collector: self.collector,
            origin: self.lease.origin,
            probe: self.route.probe
        )
        let room = min(self.room - self.count, BulkGroups.groupSize)
        batch.indices.reserveCapacity(room)
        batch.requests.reserve(room)
        return batch
    }
}
