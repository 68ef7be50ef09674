import Logging
import PushQueue

/// Stores new pushes, if the capacities of their callers and apps have room for them.
struct PushIntake: Sendable {
    let queue: any PushQueue
    let limits: CallerLimits
    let status: any RelayStatus
    let logger: Logger

    /// Stores pushes, counts them, and tells the dispatcher.
    ///
    /// - Parameter isPartial: whether to store the other pushes if some are in conflict with stored ones.
    /// - Returns: a result for each push, in order. If the call is not partial and one is a conflict, nothing was stored.
    /// - Throws: `quotaExceeded` if there is no room for all of them; the error of the queue.
    func store(_ pushes: [NewPush], isPartial: Bool) async throws(APIError) -> [EnqueueResult] {
        guard !pushes.isEmpty else { return [] }
        let wanted = CapacityLimits.Use(pushes)
        try await self.limits.capacity.reserve(wanted)
        var used = CapacityLimits.Use()
        defer { self.limits.capacity.end(wanted, stored: used) }
        let results: [EnqueueResult]
        do throws(QueueError) {
            results = try await self.queue.enqueue(pushes, isPartial: isPartial)
        } catch {
            self.logger.warning("Pushes were not stored", metadata: ["error": "\(error.message)"])
            self.status.countStorageError(error)
            throw APIError(error)
        }
        if !isPartial, results.contains(where: \.isConflict) { return results }
        used = CapacityLimits.Use(zip(pushes, results).lazy.filter { $0.1 == .queued }.map(\.0))
        var queued: [Route: Int] = [:]
        var duplicates: [Route: Int] = [:]
        for (push, result) in zip(pushes, results) {
            switch result {
            case .queued: queued[push.route, default: 0] += 1
            case .duplicate: duplicates[push.route, default: 0] += 1
            case .conflict: break
            }
        }
        self.status.count(queued: queued, duplicates: duplicates)
        // A batch is not sent before it is complete.
        if queued.keys.contains(where: { $0.batch == nil }) { self.status.signal() }
        return results
    }
}

extension EnqueueResult {
    fileprivate var isConflict: Bool {
        if case .conflict = self { true } else { false }
    }
}
