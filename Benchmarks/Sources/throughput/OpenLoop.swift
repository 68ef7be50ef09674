import APNSPool
import Dispatch
import Synchronization

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// Pushes that come at fixed times, as from users: one that is late makes none of the others later.
///
/// Latency is counted from the time at which a push should have been sent. A load generator that waits for the server
/// before it goes on would leave out just those pushes that would have waited longest ("coordinated omission", Gil Tene).
struct OpenLoop: Sendable {
    var client: APNSClient
    var workload: Workload
    /// Nil: each push is built and encoded anew.
    var prepared: PreparedPush?
    var pushes: Int
    /// Pushes a second.
    var rate: Double
    /// Asked before each push; once it says yes, no further one is sent.
    var isOver: @Sendable () -> Bool = { false }

    /// Opens all connections and lets each learn the server's limits, unmeasured.
    func warmUp(connections: Int) async throws {
        if connections > 0 { try await client.prewarm(connections) }
        await withDiscardingTaskGroup { group in
            for number in 0..<(8 * max(1, connections)) {
                group.addTask { _ = await send(number) }
            }
        }
    }

    func run() async -> Tally {
        let total = SharedTally()
        await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
            // The arrivals themselves count as one.
            let open = Countdown { done.resume() }
            // A thread that keeps the time: a task that sleeps wakes up to a millisecond late.
            DispatchQueue(label: "arrivals", qos: .userInteractive).async {
                let start = MonotonicTime.microseconds() + 1000
                let interval = 1e6 / rate
                for number in 0..<pushes {
                    let due = start + UInt64(Double(number) * interval)
                    MonotonicTime.sleep(until: due)
                    if isOver() { break }
                    open.countUp()
                    Task.detached {
                        let outcome = await send(number)
                        let latency = MonotonicTime.microseconds() - due
                        switch outcome {
                        case .accepted: total.addAccepted(latency)
                        case .rejected(let error), .notProcessed(let error), .notSent(let error), .unknown(let error):
                            total.addFailed(latency, "\(error)")
                        }
                        open.countDown()
                    }
                }
                open.countDown()
            }
        }
        return total.value
    }

    private func send(_ number: Int) async -> PushOutcome {
        let token = DeviceTokens.token(UInt64(number))
        if let prepared { return await client.deliver(prepared, to: token) }
        return await client.deliver(workload.notification(UInt64(number)), to: token)
    }
}

/// Begins at one and calls when it comes to zero.
private final class Countdown: Sendable {
    private let count = Atomic(1)
    private let whenDone: @Sendable () -> Void

    init(whenDone: @escaping @Sendable () -> Void) {
        self.whenDone = whenDone
    }

    func countUp() {
        count.wrappingAdd(1, ordering: .relaxed)
    }

    func countDown() {
        if count.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 { whenDone() }
    }
}
