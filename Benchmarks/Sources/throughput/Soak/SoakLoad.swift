import APNSPool
import NIOCore
import Synchronization

/// The pushes of a soak by outcome.
struct SoakCounts: Sendable {
    var pushes = 0
    var accepted = 0
    var rejected = 0
    var notProcessed = 0
    var notSent = 0
    var unknown = 0

    var outcomes: Int { accepted + rejected + notProcessed + notSent + unknown }

    mutating func add(_ outcome: PushOutcome) {
        switch outcome {
        case .accepted: accepted += 1
        case .rejected: rejected += 1
        case .notProcessed: notProcessed += 1
        case .notSent: notSent += 1
        case .unknown: unknown += 1
        }
    }
}

/// The mixed load of a soak: single pushes (some with short deadlines, some cancelled, some that replace each other),
/// bulk calls, changes of settings and of the key, and clients that live for a second.
struct SoakLoad: Sendable {
    var client: APNSClient
    var configuration: APNSClientConfiguration
    var workload: Workload
    /// Single pushes a second. Bulk calls send as many again.
    var rate: Double
    /// Bytes kept for each single push, to prove that the verdict finds a leak.
    var leakedBytes: Int

    private let counts = SharedCounts()
    private let leaked = Leak()

    var total: SoakCounts { counts.value }

    /// Sends for this time, and returns when every push has its outcome.
    func run(for time: Duration) async throws {
        let end = ContinuousClock.now.advanced(by: time)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await sendSingles(until: end) }
            group.addTask { try await sendBulk(until: end) }
            group.addTask { try await changeSettings(until: end) }
            group.addTask { try await useShortLivedClients(until: end) }
            try await group.waitForAll()
        }
    }

    private func sendSingles(until end: ContinuousClock.Instant) async throws {
        let begin = ContinuousClock.now
        var sent = 0
        try await withThrowingDiscardingTaskGroup { group in
            while true {
                let now = ContinuousClock.now
                guard now < end else { break }
                let due = Int((now - begin) / .milliseconds(1) * rate / 1000)
                // After a pause of this process, the load catches up by at most one second.
                sent = max(sent, due - Int(rate))
                while sent < due {
                    sent += 1
                    let number = counts.begin()
                    group.addTask { await self.sendSingle(number) }
                }
                try await Task.sleep(for: .milliseconds(5))
            }
        }
    }

    private func sendSingle(_ number: Int) async {
        let token = DeviceTokens.token(UInt64(number))
        var options = DeliveryOptions()
        if number % 50 == 0 { options.deadline = .milliseconds(number / 50 % 40) }
        let isCancelled = number % 33 == 2
        let push = Task { [options] in
            await client.deliver(workload.notification(UInt64(number)), to: token, options: options)
        }
        if isCancelled {
            try? await Task.sleep(for: .microseconds(number % 7000))
            push.cancel()
        }
        counts.end(await push.value)
        if leakedBytes > 0 { leaked.keep(leakedBytes) }
    }

    private func sendBulk(until end: ContinuousClock.Instant) async throws {
        let prepared = try workload.notification().prepared()
        var isPrepared = false
        while ContinuousClock.now < end {
            // Two seconds of pushes in a call, alternately prepared and encoded one by one.
            isPrepared.toggle()
            let first = counts.begin(2 * Int(rate))
            let numbers = (first..<first + 2 * Int(rate)).map { UInt64($0) }
            let options = BulkOptions(maxInFlight: 500, rate: .perSecond(rate))
            if isPrepared {
                let deliveries = client.deliveries(
                    of: prepared,
                    to: numbers,
                    token: { (number: UInt64) -> DeviceToken in DeviceTokens.token(number) },
                    options: options
                )
                for await delivery in deliveries { counts.end(delivery.outcome) }
            } else {
                let workload = self.workload
                let deliveries = client.deliveries(numbers, options: options) { number in
                    (workload.notification(number), DeviceTokens.token(number))
                }
                for await delivery in deliveries { counts.end(delivery.outcome) }
            }
        }
    }

    private func changeSettings(until end: ContinuousClock.Instant) async throws {
        var round = 0
        while ContinuousClock.now < end {
            round += 1
            try client.update { $0.pool.size = 2 + round % 3 }
            if round % 4 == 0 { _ = await client.check(topic: workload.topic) }
            if round % 10 == 0 {
                // An outage in the wrong moment refuses it; the old key then stays.
                try? await client.replaceAuthentication(configuration.authentication, within: .seconds(5))
            }
            _ = "\(await client.status)"
            try await Task.sleep(until: min(end, .now.advanced(by: .seconds(2))))
        }
    }

    private func useShortLivedClients(until end: ContinuousClock.Instant) async throws {
        while ContinuousClock.now < end {
            let guest = try APNSClient(configuration: configuration)
            try await guest.start()
            await withDiscardingTaskGroup { group in
                for _ in 0..<50 {
                    let number = counts.begin()
                    group.addTask {
                        let token = DeviceTokens.token(UInt64(number))
                        counts.end(await guest.deliver(workload.notification(UInt64(number)), to: token))
                    }
                }
            }
            await guest.shutdown(within: .seconds(1))
            try await Task.sleep(until: min(end, .now.advanced(by: .seconds(3))))
        }
    }
}

private final class SharedCounts: Sendable {
    private let counts = Mutex(SoakCounts())

    var value: SoakCounts { counts.withLock { $0 } }

    /// - Returns: the number of the first of these pushes.
    func begin(_ count: Int = 1) -> Int {
        counts.withLock { counts in
            counts.pushes += count
            return counts.pushes - count
        }
    }

    func end(_ outcome: PushOutcome) {
        counts.withLock { $0.add(outcome) }
    }
}

private final class Leak: Sendable {
    private let kept = Mutex<[[UInt8]]>([])

    func keep(_ bytes: Int) {
        kept.withLock { $0.append([UInt8](repeating: 1, count: bytes)) }
    }
}
