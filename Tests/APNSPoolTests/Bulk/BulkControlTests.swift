import Dispatch
import Foundation
import APNSModel
import APNSTesting
import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Blocks threads of the tasks' thread pool until they are released or a timeout ends.
private final class OccupiedThreads: Sendable {
    private let count: Int
    private let isLate = Atomic(false)
    private let released = DispatchSemaphore(value: 0)

    init(_ count: Int) {
        self.count = count
    }

    /// Returns when all threads are blocked.
    func occupy() async {
        let (starts, start) = AsyncStream<Void>.makeStream()
        for _ in 0..<self.count {
            Task.detached {
                start.yield()
                self.block()
            }
        }
        var iterator = starts.makeAsyncIterator()
        for _ in 0..<self.count { await iterator.next() }
    }

    /// Synchronous on purpose: it blocks its thread.
    private func block() {
        let limit = DispatchTime.now() + .seconds(Patience.seconds)
        if self.released.wait(timeout: limit) == .timedOut { self.isLate.store(true, ordering: .relaxed) }
    }

    /// - Returns: false if the timeout ended first.
    func release() -> Bool {
        for _ in 0..<self.count { self.released.signal() }
        return !self.isLate.load(ordering: .relaxed)
    }
}

/// Asynchronous inputs, and the control of a bulk call, over real sockets.
struct BulkControlTests {
    private struct Broken: Error, Equatable {}

    private func tokens(_ count: Int) -> AsyncStream<Int> {
        AsyncStream { continuation in
            for number in 0..<count { continuation.yield(number) }
            continuation.finish()
        }
    }

    // MARK: Asynchronous inputs

    @Test(arguments: [0, 1, 64, 2000])
    func eachElementOfAnAsynchronousInputHasOneOutcome(_ count: Int) async throws {
        try await withServer { client, server in
            var seen = [Int](repeating: 0, count: count)
            let deliveries = client.deliveries(of: samplePush(), to: tokens(count), token: { DeviceToken.sample($0) })
            for await delivery in deliveries {
                #expect(delivery.outcome.certainty == .accepted)
                seen[delivery.element] += 1
            }
            #expect(seen.allSatisfy { $0 == 1 })
            #expect(server.record.processed.count == count)
            #expect(deliveries.control.progress.pulled == count)
            #expect(deliveries.control.progress.outcomes.accepted == count)
            #expect(client.runtime.lifecycle.pushesInFlight == 0)
        }
    }

    @Test func anInputErrorIsThrownAfterTheOutcomes() async throws {
        try await withServer { client, server in
            let rows = AsyncThrowingStream<Int, any Error> { continuation in
                for number in 0..<300 { continuation.yield(number) }
                continuation.finish(throwing: Broken())
            }
            var accepted = 0
            await #expect(throws: Broken.self) {
                for try await delivery in client.deliveries(
                    of: samplePush(),
                    to: rows,
                    token: { DeviceToken.sample($0) }
                ) {
                    if delivery.outcome.certainty == .accepted { accepted += 1 }
                }
            }
            #expect(accepted == 300)
            #expect(server.record.processed.count == 300)
        }
    }

    /// Outcomes do not wait for the next element.
    @Test func aSlowInputDelaysNoOutcome() async throws {
        try await withServer { client, _ in
            let (rows, row) = AsyncStream<Int>.makeStream()
            row.yield(0)
            var iterator = client.deliveries(of: samplePush(), to: rows, token: { DeviceToken.sample($0) })
                .makeAsyncIterator()
            let first = await iterator.next()
            #expect(first?.element == 0)
            row.yield(1)
            let second = await iterator.next()
            #expect(second?.element == 1)
            row.finish()
            let third = await iterator.next()
            #expect(third == nil)
        }
    }

    @Test func aCancelledConsumerOfASilentInputEnds() async throws {
        try await withServer { client, _ in
            #expect(await deliveriesUntilCancelled(client) == 1)
        }
    }

    /// All tasks share one thread, as on one core. A cancelled call that waits for its input must not block it.
    @Test func aCancelledCallReleasesTheOnlyThread() async throws {
        try await withServer { client, _ in
            let threads = OccupiedThreads(ProcessInfo.processInfo.activeProcessorCount - 1)
            #expect(await deliveriesUntilCancelled(client) { await threads.occupy() } == 1)
            #expect(threads.release(), "the call blocked the only free thread until the others were released")
        }
    }

    /// Consumes an input that gives one element and then nothing, until the consumer is cancelled.
    ///
    /// - Parameter prepare: Called before the cancellation.
    /// - Returns: The number of outcomes.
    private func deliveriesUntilCancelled(_ client: APNSClient, prepare: () async -> Void = {}) async -> Int {
        let (rows, row) = AsyncStream<Int>.makeStream()
        let (outcomes, outcome) = AsyncStream<Void>.makeStream()
        let consumer = Task { @Sendable in
            var count = 0
            row.yield(0)
            for await _ in client.deliveries(of: samplePush(), to: rows, token: { DeviceToken.sample($0) }) {
                count += 1
                outcome.yield()
            }
            return count
        }
        for await _ in outcomes { break }
        await prepare()
        consumer.cancel()
        return await consumer.value
    }

    @Test func anAsynchronousInputIsPulledAtTheConsumersPace() async throws {
        let pulled = Atomic<Int>(0)
        try await withServer { client, _ in
            let rows = AsyncStream<Int> { pulled.wrappingAdd(1, ordering: .relaxed).newValue }
            let options = BulkOptions(maxInFlight: 50)
            var count = 0
            for await delivery in client.deliveries(
                of: samplePush(),
                to: rows,
                token: { DeviceToken.sample($0) },
                options: options
            ) {
                #expect(delivery.outcome.certainty == .accepted)
                count += 1
                #expect(pulled.load(ordering: .relaxed) <= count + 2 * 50 + 64)
                if count == 500 { break }
            }
        }
    }

    @Test func aShutdownGivesEachPulledElementAnOutcome() async throws {
        try await withServer(script: { _ in [.hold] }) { client, server in
            let (rows, row) = AsyncStream<Int>.makeStream()
            for number in 0..<40 { row.yield(number) }
            let deliveries = client.deliveries(of: samplePush(), to: rows, token: { DeviceToken.sample($0) })
            let outcomes = Task {
                var outcomes: [Certainty] = []
                for await delivery in deliveries { outcomes.append(delivery.outcome.certainty) }
                return outcomes
            }
            await server.wait { $0.held == 40 }
            await client.shutdown(within: .milliseconds(50))
            let all = await outcomes.value
            #expect(all.count == 40 && all.allSatisfy { $0 == .unknown })
            #expect(deliveries.control.progress.pulled == 40)
        }
    }

    // MARK: Elements

    @Test func eachRowMayHaveItsOwnPreparedPushAndID() async throws {
        try await withServer { client, server in
            let pushes = try ["en", "de"].map {
                try PushNotification(topic: "com.grasscove.Fern", alert: $0).prepared()
            }
            let ids = (0..<200).map { APNSID(high: 0x1111_1111_1111_4111, low: 0x8000_0000_0000_0000 | UInt64($0)) }
            var seen = 0
            let deliveries = client.deliveries(ids.indices, apnsID: { $0 % 2 == 0 ? ids[$0] : nil }) { row in
                (pushes[row % 2], DeviceToken.sample(row))
            }
            for await delivery in deliveries {
                #expect(delivery.outcome.certainty == .accepted)
                let id = try #require(delivery.outcome.apnsID)
                #expect((id == ids[delivery.element]) == (delivery.element % 2 == 0))
                seen += 1
            }
            #expect(seen == 200)
            #expect(server.record.processed.count == 200)
        }
    }

    // MARK: Stop, pause and rate

    @Test func aStoppedRunFinishesThePulledRowsAndCountsThem() async throws {
        try await withServer { client, server in
            let control = BulkControl()
            var count = 0
            let options = BulkOptions(maxInFlight: 20, control: control)
            for await delivery in client.deliveries(
                of: samplePush(),
                to: 0...,
                token: { DeviceToken.sample($0) },
                options: options
            ) {
                #expect(delivery.outcome.certainty == .accepted)
                count += 1
                if count == 100 { control.stop() }
            }
            #expect(count >= 100 && count <= 100 + 2 * 20 + 64)
            #expect(control.progress.pulled == count)
            #expect(control.progress.outcomes.accepted == count)
            #expect(control.progress.unfinished == 0)
            #expect(server.record.processed.count == count)
        }
    }

    @Test("A control that two runs share shows the progress of the one that began last")
    func sharedControl() async throws {
        try await withServer { client, _ in
            let options = BulkOptions(control: BulkControl())
            let deliveries = client.deliveries(
                of: samplePush(),
                to: 0..<10,
                token: { DeviceToken.sample($0) },
                options: options
            )
            var first: PushDeliveries<Int>.AsyncIterator? = deliveries.makeAsyncIterator()
            _ = await first?.next()
            var second = deliveries.makeAsyncIterator()
            while await second.next() != nil {}
            first = nil
            #expect(deliveries.control.progress.outcomes.accepted == 10)
            #expect(deliveries.control.progress.pulled == 10)
        }
    }

    @Test func aPausedRunPullsNothingUntilItResumes() async throws {
        try await withServer { client, server in
            let control = BulkControl()
            control.pause()
            let run = Task {
                let options = BulkOptions(control: control)
                return await client.sendAll(
                    samplePush(),
                    to: (0..<100).map { DeviceToken.sample($0) },
                    options: options
                )
            }
            await until { control.progress == BulkProgress() && client.runtime.lifecycle.pushesInFlight == 1 }
            #expect(server.record.pushes.isEmpty)
            #expect(control.isPaused)
            control.resume()
            #expect(await run.value.accepted == 100)
        }
    }

    @Test func theRateIsKeptAndCanBeChanged() async throws {
        try await withServer { client, _ in
            let control = BulkControl(rate: .perSecond(100))
            let clock = SystemMonotonicClock()
            let began = clock.now
            var count = 0
            let options = BulkOptions(control: control)
            for await _ in client.deliveries(
                of: samplePush(),
                to: 0..<2020,
                token: { DeviceToken.sample($0) },
                options: options
            ) {
                count += 1
                if count == 20 {
                    // The first push goes at once; the others are a hundredth of a second apart.
                    #expect(began.duration(to: clock.now) >= .milliseconds(180))
                    control.rate = nil
                }
            }
            #expect(count == 2020)
        }
    }

    @Test func theCompletedPrefixCountsOnlyOutcomesTheCallerSaw() async throws {
        // The third push gets its response last.
        let script: ScriptedServer.Script = { $0.number == 3 ? [.hold] : [.respond(200)] }
        try await withServer(script: script) { client, server in
            let deliveries = client.deliveries(of: samplePush(), to: 0..<200, token: { DeviceToken.sample($0) })
            var seen: Set<Int> = []
            for await delivery in deliveries {
                let prefix = deliveries.control.progress.completedPrefix
                #expect((0..<prefix).allSatisfy { seen.contains($0) })
                seen.insert(delivery.element)
                if seen.count == 199 {
                    #expect(prefix < 200)
                    server.release()
                }
            }
            #expect(deliveries.control.progress.completedPrefix == 200)
        }
    }

    @Test(
        "The completed prefix counts every element that the caller has moved past, also while the call waits",
        arguments: [false, true]
    )
    func prefixWhileTheCallWaits(isPaused: Bool) async throws {
        try await withServer { client, _ in
            try await expectPrefixOfTen(of: client, isPaused: isPaused)
        }
        // A sender without an engine of its own.
        try await expectPrefixOfTen(of: RecordingPushSender(), isPaused: isPaused)
    }

    /// Receives ten outcomes and requests the next one, for which there is no element.
    private func expectPrefixOfTen(of sender: some PushSender, isPaused: Bool) async throws {
        let (rows, row) = AsyncStream<Int>.makeStream()
        for number in 0..<10 { row.yield(number) }
        let control = BulkControl()
        let options = BulkOptions(control: control)
        let consumer = Task { @Sendable in
            var count = 0
            for await _ in sender.deliveries(
                of: samplePush(),
                to: rows,
                token: { DeviceToken.sample($0) },
                options: options
            ) {
                count += 1
                if count == 10, isPaused { control.pause() }
            }
            return count
        }
        await until { control.progress.completedPrefix == 10 }
        #expect(control.progress.completedPrefix == 10 && control.progress.outcomes.accepted == 10)
        row.finish()
        control.resume()
        #expect(await consumer.value == 10)
    }
}

struct PushRateTests {
    private func at(_ milliseconds: Int64) -> MonotonicInstant {
        MonotonicInstant(nanoseconds: milliseconds * 1_000_000)
    }

    private func check(_ taken: Int, _ expected: Int, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(taken == expected, sourceLocation: sourceLocation)
    }

    @Test func aSecondAdmitsAsManyPushesAsTheRate() {
        var limiter = TokenBucket(.perSecond(250))
        var taken = 0
        for millisecond in 0...1000 as ClosedRange<Int64> { taken += limiter.take(upTo: 64, now: at(millisecond)) }
        #expect((250...252).contains(taken))
    }

    @Test func aLongPauseAllowsOnlyASmallBurst() {
        var limiter = TokenBucket(.perSecond(1000))
        check(limiter.take(upTo: 64, now: at(0)), 1)
        check(limiter.take(upTo: 64, now: at(60_000)), 10)
        check(limiter.take(upTo: 64, now: at(60_000)), 0)
        limiter.giveBack(4)
        check(limiter.take(upTo: 64, now: at(60_000)), 4)
    }

    @Test func theNextWakeUpAdmitsSeveralPushes() {
        var limiter = TokenBucket(.perSecond(10_000))
        _ = limiter.take(upTo: 64, now: at(0))
        let next = limiter.nextTurns(now: at(0))
        #expect(next > at(0) && next < at(3))
        let later = limiter.take(upTo: 64, now: next)
        #expect(later >= 19)
    }

    @Test func extremeRatesAreClamped() {
        for (count, real) in [(0.0, 0.001), (-1, 0.001), (.nan, 0.001), (.infinity, 1e9), (5, 5)] {
            #expect(PushRate.perSecond(count).perSecond == real)
        }
        var limiter = TokenBucket(.perSecond(.nan))
        check(limiter.take(upTo: 1, now: at(0)), 1)
        #expect(limiter.nextTurns(now: MonotonicInstant(nanoseconds: .max)) == .distantFuture)
        check(limiter.take(upTo: .max, now: MonotonicInstant(nanoseconds: .max)), 1)
        check(limiter.take(upTo: -1, now: at(0)), 0)
    }
}

struct CompletedPrefixTests {
    @Test(arguments: PropertyRun(commands: 4_000, runs: 2).seeds)
    func theCompletedPrefixAgreesWithASet(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var prefix = CompletedPrefix()
        var done: Set<UInt64> = []
        var expected: UInt64 = 0
        for _ in 0..<2000 {
            // Mostly near the first open number, sometimes far from it.
            let span: UInt64 = Bool.random(using: &random) ? 8 : 700
            let number = expected + UInt64.random(in: 0..<span, using: &random)
            prefix.complete(number)
            done.insert(number)
            while done.contains(expected) { expected += 1 }
            #expect(prefix.count == expected, "SEED=\(seed) replays this")
        }
        // Completing a number twice changes nothing.
        if expected > 0 { prefix.complete(expected - 1) }
        prefix.complete(0)
        #expect(prefix.count == expected)
    }
}
