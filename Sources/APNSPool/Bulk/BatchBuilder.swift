import APNSModel
import APNSTransport
import NIOCore
import SupervisedPool

/// Groups the pushes of one lease into batches, and hands each batch to the connection as soon as it is complete.
struct BatchBuilder {
    private let worker: ConnectionActor
    private let origin: LeaseOrigin
    private let collector: BulkCollector
    private let route: SendRoute
    private let responseLimit: TimeAmount
    private let isBulk: Bool
    /// The expected number of pushes.
    private let room: Int
    private var batch: PushBatch?
    /// The push whose payload the batch shares.
    private var common: PreparedPush?
    /// The number of pushes added so far.
    private(set) var count = 0

    init(
        _ worker: ConnectionActor,
        _ origin: LeaseOrigin,
        collector: BulkCollector,
        route: SendRoute,
        responseLimit: TimeAmount,
        isBulk: Bool,
        room: Int
    ) {
        self.worker = worker
        self.origin = origin
        self.collector = collector
        self.route = route
        self.responseLimit = responseLimit
        self.isBulk = isBulk
        self.room = room
    }

    /// Adds a push.
    ///
    /// - Parameters:
    ///   - index: the push's index in the bulk call.
    ///   - block: the header block that it shares with other pushes.
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

    /// Hands over the last batch.
    mutating func finish() {
        guard let batch else { return }
        self.batch = nil
        self.worker.send(batch)
    }

    /// Whether the push fits into the batch: the batch has room and the same header block, and the push has either the
    /// batch's payload or a non-empty payload of its own. (An empty payload stands for the batch's.)
    private func fits(_ push: PreparedPush, _ block: HeaderBlock, isCommon: Bool) -> Bool {
        guard let batch, batch.indices.count < PendingPushes.batchSize else { return false }
        return isCommon || !push.payload.isEmpty && batch.requests.shared === block
    }

    private func makeBatch(_ push: PreparedPush, _ block: HeaderBlock) -> PushBatch {
        var batch = PushBatch(
            requests: RequestBatch(
                shared: block,
                credential: self.route.authorization,
                body: push.payload,
                responseLimit: self.responseLimit,
                isBulk: self.isBulk
            ),
            indices: [],
            collector: self.collector,
            origin: self.origin
        )
        let room = min(self.room - self.count, PendingPushes.batchSize)
        batch.indices.reserveCapacity(room)
        batch.requests.reserve(room)
        return batch
    }
}
