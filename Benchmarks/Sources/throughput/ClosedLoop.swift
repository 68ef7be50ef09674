import APNSPool
import Synchronization

/// The three ways to send. Each keeps `inFlight` pushes under way until all have their outcome.
struct ClosedLoop<Sender: PushSender>: Sendable {
    var client: Sender
    var workload: Workload
    var pushes: Int
    var inFlight: Int

    func run(_ mode: Mode) async throws -> Tally {
        let total = SharedTally()
        try await run(mode, into: total)
        return total.value
    }

    /// Adds to a tally that several loops may share.
    func run(_ mode: Mode, into total: SharedTally) async throws {
        switch mode {
        case .prepared: await count(try preparedDeliveries(), into: total)
        case .encoded: await count(encodedDeliveries(), into: total)
        case .single: await single(into: total)
        }
    }

    /// One payload, encoded once, to all devices by the bulk call.
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
    private func single(into total: SharedTally) async {
        let next = Counter()
        let tasks = min(inFlight, pushes)
        // When a task ends, its group searches all of its tasks for it. With one large group, this search would be a
        // part of the measured time.
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

    private func count(_ deliveries: PushDeliveries<Row>, into total: SharedTally) async {
        var part = TallyPart(total)
        for await delivery in deliveries {
            part.add(delivery.outcome, MonotonicTime.microseconds() - delivery.element.pulled)
        }
        part.end()
    }

    private func sendUntilDone(_ next: Counter, _ total: SharedTally) async {
        var part = TallyPart(total)
        // Each push begins when the one before it ends, so one reading of the clock serves both.
        var start = MonotonicTime.microseconds()
        while true {
            let number = next.take()
            guard number < pushes else { break }
            let token = DeviceTokens.token(UInt64(number))
            let outcome = await client.deliver(workload.notification(UInt64(number)), to: token)
            let end = MonotonicTime.microseconds()
            part.add(outcome, end - start)
            start = end
        }
        part.end()
    }
}

/// The outcomes of one task. Locks the common tally once in ``size`` pushes, because a lock for each push would be a
/// part of the measured time.
private struct TallyPart {
    private static let size = 64
    private let total: SharedTally
    private var latencies: [UInt64] = []

    init(_ total: SharedTally) {
        self.total = total
        latencies.reserveCapacity(Self.size)
    }

    mutating func add(_ outcome: PushOutcome, _ latency: UInt64) {
        switch outcome {
        case .accepted:
            latencies.append(latency)
            if latencies.count == Self.size { total.addAccepted(&latencies) }
        case .rejected(let error), .notProcessed(let error), .notSent(let error), .unknown(let error):
            total.addFailed(latency, "\(error)")
        }
    }

    mutating func end() { total.addAccepted(&latencies) }
}

private final class Counter: Sendable {
    private let value = Atomic(0)

    func take() -> Int {
        value.wrappingAdd(1, ordering: .relaxed).oldValue
    }
}
