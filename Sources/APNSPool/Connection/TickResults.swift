import APNSTransport
import SupervisedPool

/// The results of one tick, collected for their receivers. All streams are returned to the pool before the first
/// receiver learns its result, because a task that resumes may need one at once.
struct TickResults {
    private let pool: Pool<ConnectionActor>
    private var attempts: [(attempt: PushAttempt, result: StreamResult)] = []
    private var calls: [(collector: BulkCollector, items: [BulkCollector.Item])] = []
    /// The batch of the last result, and its index. Results of one batch usually follow each other.
    private var batch: (index: Int, batch: PendingBatch)?
    /// Streams of the same worker and session that are not returned yet.
    private var returned: (origin: LeaseOrigin, count: Int)?

    init(pool: Pool<ConnectionActor>) {
        self.pool = pool
    }

    /// Adds a result. Ignores it if its push already has one.
    mutating func add(_ result: StreamResult, of pending: inout PendingPushes) {
        let index = PendingPushes.index(of: result.tag)
        if index != self.batch?.index {
            self.leaveBatch(&pending)
            switch pending[index] {
            case .free:
                return
            case .attempt(let attempt):
                pending.remove(index)
                self.returnStream(attempt.origin)
                self.attempts.append((attempt, result))
                return
            case .batch(let batch):
                self.batch = (index, batch)
                if self.calls.last?.collector !== batch.collector { self.calls.append((batch.collector, [])) }
            }
        }
        guard let batch = self.batch?.batch, let number = batch.close(PendingPushes.position(of: result.tag))
        else { return }
        self.returnStream(batch.origin)
        self.calls[self.calls.count - 1].items.append(BulkCollector.Item(index: number, result: result))
    }

    /// Returns the streams that are left, and delivers all results.
    mutating func deliver(_ pending: inout PendingPushes) {
        self.leaveBatch(&pending)
        if let returned { self.pool.checkin(returned.origin, count: returned.count) }
        self.returned = nil
        for call in self.calls { call.collector.deliver(call.items) }
        self.calls.removeAll(keepingCapacity: true)
        for (attempt, result) in self.attempts { attempt.end(result) }
        self.attempts.removeAll(keepingCapacity: true)
    }

    private mutating func leaveBatch(_ pending: inout PendingPushes) {
        guard let (index, batch) = self.batch else { return }
        self.batch = nil
        if batch.isDone { pending.remove(index) }
    }

    private mutating func returnStream(_ origin: LeaseOrigin) {
        if let returned, returned.origin == origin {
            self.returned = (origin, returned.count + 1)
        } else {
            if let returned { self.pool.checkin(returned.origin, count: returned.count) }
            self.returned = (origin, 1)
        }
    }
}
