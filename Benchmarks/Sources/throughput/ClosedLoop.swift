import APNSPool
import Synchronization

/// The three ways to send. Each keeps `inFlight` pushes under way until all have their outcome.
struct ClosedLoop<Sender: PushSender>: Sendable {
    var client: Sender
    var workload: Workload
    var pushes: Int
    var inFlight: Int

    func run(_ mode: Mode) async throws -> Tally {
        switch mode {
        case .prepared: try await self.prepared()
        case .encoded: await self.encoded()
        case .single: await self.single()
        }
    }

    /// One payload, encoded once, to all devices by the bulk call.
    func prepared() async throws -> Tally { await count(try preparedDeliveries()) }

    private func preparedDeliveries() throws -> PushDeliveries<Row> {
        let push = try workload.notification().prepared()
        return client.deliveries(
            of: push,
            to: Rows(count: pushes),
            token: { (row: Row) -> DeviceToken in DeviceTokens.token(row.number) },
            options: BulkOptions(maxInFlight: inFlight)
        )
    }

    /// The bulk call with a notification for each device, built from its values and encoded anew.
    func encoded() async -> Tally { await count(encodedDeliveries()) }

    private func encodedDeliveries() -> PushDeliveries<Row> {
        let workload = self.workload
        return client.deliveries(
            Rows(count: pushes),
            options: BulkOptions(maxInFlight: inFlight)
        ) { row in
            (workload.notification(row.number), DeviceTokens.token(row.number))
        }
    }

    /// As many tasks as pushes in flight; each builds, encodes and awaits one push after the other.
    func single() async -> Tally {
        let total = SharedTally()
        await single(into: total)
        return total.value
    }

    private func single(into total: SharedTally) async {
        let next = Counter()
        let tasks = min(inFlight, pushes)
        // A group searches all of its tasks for one that ends, so that one large group would be measured, too.
        await withDiscardingTaskGroup { groups in
            for first in stride(from: 0, to: tasks, by: Self.groupSize) {
                groups.addTask {
                    await withDiscardingTaskGroup { group in
                        for _ in first..<min(first + Self.groupSize, tasks) {
                            group.addTask { await self.sendUntilDone(next, total) }
                        }
                    }
                }
            }
        }
    }

    private static var groupSize: Int { 500 }

    /// Adds to a tally of several loops.
    func run(_ mode: Mode, into total: SharedTally) async throws {
        switch mode {
        case .prepared: await count(try preparedDeliveries(), into: total)
        case .encoded: await count(encodedDeliveries(), into: total)
        case .single: await single(into: total)
        }
    }

    private func count(_ deliveries: PushDeliveries<Row>, into total: SharedTally) async {
        var latencies: [UInt64] = []
        for await delivery in deliveries {
            let latency = MonotonicTime.microseconds() - delivery.element.pulled
            switch delivery.outcome {
            case .accepted:
                latencies.append(latency)
                if latencies.count == 64 { total.addAccepted(&latencies) }
            case .rejected(let error), .notProcessed(let error), .notSent(let error), .unknown(let error):
                total.addFailed(latency, "\(error)")
            }
        }
        total.addAccepted(&latencies)
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
