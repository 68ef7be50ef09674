import APNSPool
import Synchronization

/// The three ways to send. Each keeps `inFlight` pushes under way until all have their outcome.
struct ClosedLoop: Sendable {
    var client: APNSClient
    var workload: Workload
    var pushes: Int
    var inFlight: Int

    /// One payload, encoded once, to all devices by the bulk call.
    func prepared() async throws -> Tally {
        let push = try workload.notification().prepared()
        let deliveries = client.deliveries(
            of: push,
            to: Rows(count: pushes),
            token: { (row: Row) -> DeviceToken in DeviceTokens.token(row.number) },
            options: BulkOptions(maxInFlight: inFlight)
        )
        return await count(deliveries)
    }

    /// The bulk call with a notification for each device, built from its values and encoded anew.
    func encoded() async -> Tally {
        let workload = self.workload
        let deliveries = client.deliveries(
            Rows(count: pushes),
            options: BulkOptions(maxInFlight: inFlight)
        ) { row in
            (workload.notification(row.number), DeviceTokens.token(row.number))
        }
        return await count(deliveries)
    }

    /// As many tasks as pushes in flight; each builds, encodes and awaits one push after the other.
    func single() async -> Tally {
        let next = Counter()
        let total = SharedTally()
        await withDiscardingTaskGroup { group in
            for _ in 0..<min(inFlight, pushes) {
                group.addTask { await self.sendUntilDone(next, total) }
            }
        }
        return total.value
    }

    private func sendUntilDone(_ next: Counter, _ total: SharedTally) async {
        // The common tally is locked once in so many pushes: locking it at each would be measured too.
        var latencies: [UInt64] = []
        latencies.reserveCapacity(64)
        while true {
            let number = next.take()
            guard number < pushes else { break }
            let start = MonotonicTime.microseconds()
            let token = DeviceTokens.token(UInt64(number))
            let outcome = await client.deliver(workload.notification(UInt64(number)), to: token)
            let latency = MonotonicTime.microseconds() - start
            switch outcome {
            case .accepted:
                latencies.append(latency)
                if latencies.count == 64 { total.addAccepted(&latencies) }
            case .rejected(let error), .notProcessed(let error), .notSent(let error), .unknown(let error):
                total.addFailed(latency, "\(error)")
            }
        }
        total.addAccepted(&latencies)
    }

    private func count(_ deliveries: PushDeliveries<Row>) async -> Tally {
        var tally = Tally()
        for await delivery in deliveries {
            tally.latencies.record(MonotonicTime.microseconds() - delivery.element.pulled)
            switch delivery.outcome {
            case .accepted: tally.accepted += 1
            case .rejected(let error), .notProcessed(let error), .notSent(let error), .unknown(let error):
                tally.note("\(error)")
            }
        }
        return tally
    }
}

private final class Counter: Sendable {
    private let value = Atomic(0)

    func take() -> Int {
        value.wrappingAdd(1, ordering: .relaxed).oldValue
    }
}
