import APNSTesting
import Synchronization
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Bulk calls on senders other than `APNSClient`: each push goes through the sender's `deliver`.
struct SequentialBulkTests {
    /// Responds to no push until it is opened.
    private final class SlowSender: PushSender {
        private struct State {
            var waiting: [CheckedContinuation<Void, Never>] = []
            var most = 0
            var count = 0
            var isOpen = false
        }

        private let state = Mutex(State())

        var most: Int { self.state.withLock { $0.most } }
        var waiting: Int { self.state.withLock { $0.waiting.count } }
        var count: Int { self.state.withLock { $0.count } }

        func deliver(_ push: PreparedPush, to token: DeviceToken, options: DeliveryOptions) async -> PushOutcome {
            await withCheckedContinuation { continuation in
                let isOpen = self.state.withLock { state in
                    state.count += 1
                    if !state.isOpen { state.waiting.append(continuation) }
                    state.most = max(state.most, state.waiting.count)
                    return state.isOpen
                }
                if isOpen { continuation.resume() }
            }
            return .accepted(Receipt(apnsID: options.apnsID ?? .random()))
        }

        func open() {
            let waiting = self.state.withLock { state in
                state.isOpen = true
                defer { state.waiting = [] }
                return state.waiting
            }
            for continuation in waiting { continuation.resume() }
        }
    }

    @Test("A recording sender receives the pushes of a bulk call in the order of its rows")
    func recorder() async {
        let dead = DeviceToken.sample(3)
        let sender = RecordingPushSender { _, token in
            guard token == dead else { return .accepted(Receipt(apnsID: .random())) }
            return .failed(PushError(code: .rejected, certainty: .rejected, message: "BadDeviceToken"))
        }
        let ids = (0..<100).map { APNSID.sample($0) }
        var given: [Int] = []
        let control = BulkControl()
        let options = BulkOptions(deadline: .seconds(7), control: control)
        for await delivery in sender.deliveries(
            of: samplePush(),
            to: 0..<100,
            token: { DeviceToken.sample($0) },
            options: options,
            apnsID: { ids[$0] }
        ) {
            given.append(delivery.element)
            #expect((delivery.outcome.error == nil) == (delivery.element != 3))
            #expect(control.progress.outcomes.total == given.count)
        }
        #expect(given == Array(0..<100))
        #expect(sender.pushes.map(\.token) == (0..<100).map { DeviceToken.sample($0) })
        #expect(sender.pushes.map(\.options.apnsID) == ids)
        #expect(sender.pushes.allSatisfy { $0.options.deadline == .seconds(7) && $0.options.lane == .bulk })
        #expect(control.progress.pulled == 100 && control.progress.completedPrefix == 100)
        let summary = await (sender as any PushSender).sendAll(samplePush(), to: ["00fa11ce", "?"])
        #expect(summary.accepted == 1 && summary.notSent == 1)
    }

    @Test(
        "The summary counts rejections by reason, also while the call runs; rare reasons of a long list are summed up"
    )
    func rejectionsByReason() async {
        // Twice 100 reasons, then one response without a reason.
        let tokens = (0...200).map { DeviceToken.sample($0) }
        let sender = RecordingPushSender { _, token in
            let number = tokens.firstIndex(of: token) ?? 200
            let reason = number == 200 ? nil : RejectionReason(rawValue: "Reason\(number % 100)")
            return .failed(.rejected(Rejection(status: 400, reason: reason), attempts: 1))
        }
        let control = BulkControl()
        let options = BulkOptions(control: control)
        let summary = await (sender as any PushSender).sendAll(samplePush(), to: tokens, options: options)
        #expect(summary.rejected == 201 && summary.rejections.values.reduce(0, +) == 201)
        #expect(summary.rejections.count == BulkSummary.reasonLimit + 1)
        #expect(summary.rejections[RejectionReason(rawValue: "Reason0")] == 2)
        #expect(summary.rejections[RejectionReason(rawValue: "Reason63")] == 2)
        #expect(summary.rejections[BulkSummary.otherReasons] == 73)
        #expect(control.progress.outcomes == summary)
    }

    @Test("One push is in flight at a time")
    func concurrency() async {
        let sender = SlowSender()
        let run = Task { await sender.sendAll(samplePush(), to: (0..<50).map { DeviceToken.sample($0) }) }
        await until { sender.waiting == 1 }
        #expect(sender.count == 1)
        sender.open()
        #expect(await run.value.accepted == 50)
        #expect(sender.most == 1)
    }

    @Test("A pause holds the rows back; a stop ends the call")
    func control() async {
        let sender = RecordingPushSender()
        let control = BulkControl()
        let run = Task {
            var count = 0
            for await _ in sender.deliveries(
                of: samplePush(),
                to: 0...,
                token: { DeviceToken.sample($0) },
                options: BulkOptions(control: control)
            ) {
                count += 1
                if count == 10 { control.pause() }
                if count == 20 { control.stop() }
            }
            return count
        }
        await until { sender.pushes.count >= 10 && control.isPaused }
        control.resume()
        #expect(await run.value == control.progress.pulled)
        #expect(control.progress.pulled == 20)
    }

    @Test("A stop ends a call that waits for a resume, its rate or its input", arguments: 0..<3)
    func stopWhileWaiting(_ reason: Int) async {
        let sender = RecordingPushSender()
        let control = BulkControl()
        let (rows, row) = AsyncStream<DeviceToken>.makeStream()
        row.yield(.sample(0))
        let run = Task {
            switch reason {
            case 0:
                control.pause()
                return await sender.sendAll(
                    samplePush(),
                    to: [DeviceToken.sample(1)],
                    options: BulkOptions(control: control)
                ).total
            case 1:
                let options = BulkOptions(rate: .perSecond(0.001), control: control)
                let tokens = (0..<9).map { DeviceToken.sample($0) }
                return await sender.sendAll(samplePush(), to: tokens, options: options).total
            default:
                return await sender.sendAll(samplePush(), to: rows, options: BulkOptions(control: control)).total
            }
        }
        await until { reason == 0 ? control.isPaused : !sender.pushes.isEmpty }
        control.stop()
        #expect(await run.value == (reason == 0 ? 0 : 1))
    }

    @Test("A cancelled loop stops pulling, and the push in flight has its outcome")
    func cancelled() async {
        let sender = SlowSender()
        let run = Task { await sender.sendAll(samplePush(), to: (0..<50).map { DeviceToken.sample($0) }) }
        await until { sender.waiting == 1 }
        run.cancel()
        sender.open()
        let summary = await run.value
        #expect(summary.accepted == 1 && summary.total == 1)
    }

    @Test("An input that throws ends the loop after the outcomes before it")
    func throwingInput() async {
        struct Broken: Error {}
        let sender = RecordingPushSender()
        let (rows, row) = AsyncThrowingStream<DeviceToken, any Error>.makeStream()
        for number in 0..<5 { row.yield(.sample(number)) }
        row.finish(throwing: Broken())
        var count = 0
        await #expect(throws: Broken.self) {
            for try await _ in sender.deliveries(of: samplePush(), to: rows) { count += 1 }
        }
        #expect(count == 5)
    }

    @Test("A loop that is left early pulls no more rows")
    func leftEarly() async {
        let sender = RecordingPushSender()
        let pulled = Atomic(0)
        let rows = (0...).lazy.map { (number: Int) -> DeviceToken in
            pulled.add(1, ordering: .relaxed)
            return .sample(number)
        }
        for await _ in sender.deliveries(of: samplePush(), to: rows) { break }
        let count = pulled.load(ordering: .relaxed)
        #expect(count == sender.pushes.count && count <= 2)
    }

    @Test("When the sender shuts down, no further row is pulled")
    func senderShutsDown() async throws {
        struct Decorator: PushSender {
            let client: APNSClient
            func deliver(_ push: PreparedPush, to token: DeviceToken, options: DeliveryOptions) async -> PushOutcome {
                await self.client.deliver(push, to: token, options: options)
            }
        }
        try await withServer { client, server in
            let control = BulkControl()
            let run = Task {
                await Decorator(client: client).sendAll(
                    samplePush(),
                    to: (0...).lazy.map { DeviceToken.sample($0) },
                    options: BulkOptions(control: control)
                )
            }
            await server.wait { $0.accepted.count >= 100 }
            await client.shutdown()
            let summary = await run.value
            #expect(summary.total == control.progress.pulled)
            #expect(summary.accepted == server.record.accepted.count)
        }
    }

    @Test("A new rate applies at once, and a push has the id of its options")
    func anotherRate() async {
        let sender = RecordingPushSender()
        let control = BulkControl(rate: .perSecond(0.001))
        let id = APNSID.random()
        let run = Task {
            await sender.sendAll(
                samplePush(),
                to: (0..<9).map { DeviceToken.sample($0) },
                options: BulkOptions(control: control)
            )
        }
        await until { !sender.pushes.isEmpty }
        control.rate = .perSecond(5000)
        #expect(await run.value.accepted == 9)
        #expect(await sender.deliver(samplePush(), to: deviceToken, options: DeliveryOptions(apnsID: id)).apnsID == id)
    }

    @Test("The rate is kept")
    func rate() async {
        let sender = RecordingPushSender()
        let clock = ContinuousClock()
        let start = clock.now
        let tokens = (0..<60).map { DeviceToken.sample($0) }
        #expect(
            await sender.sendAll(samplePush(), to: tokens, options: BulkOptions(rate: .perSecond(200))).accepted == 60
        )
        // 60 pushes at 200 a second, less the burst at the start. There is no upper bound on a busy machine.
        #expect(clock.now - start >= .milliseconds(280))
    }
}
