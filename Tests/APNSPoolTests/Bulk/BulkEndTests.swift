import APNSSimulator
import APNSTesting
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A bulk call says whether it reached the end of its input, and if not, why.
struct BulkEndTests {
    private static func tokens(_ count: Int) -> [DeviceToken] { (0..<count).map { DeviceToken.sample($0) } }

    private static func isEarly(_ summary: BulkSummary, _ code: PushError.Code?) -> Bool {
        !summary.isFinished && summary.stopped?.code == code
    }

    private static func stream(_ tokens: [DeviceToken]) -> AsyncStream<DeviceToken> {
        AsyncStream { row in
            for token in tokens { row.yield(token) }
            row.finish()
        }
    }

    @Test("A call that pulled its whole input is finished, with every kind of sender and input")
    func finished() async throws {
        try await withServer { client, _ in
            for sender in [client, RecordingPushSender()] as [any PushSender] {
                let control = BulkControl()
                let options = BulkOptions(control: control)
                let tokens = Self.tokens(100)
                var summary = await sender.sendAll(samplePush(), to: tokens, options: options)
                #expect(summary.isFinished && summary.stopped == nil && summary.accepted == 100)
                #expect(control.progress.isFinished && control.progress.outcomes == summary)
                let empty = await sender.sendAll(samplePush(), to: [DeviceToken](), options: options)
                #expect(empty.isFinished && empty.total == 0)
                summary = await sender.sendAll(samplePush(), to: Self.stream(tokens), options: options)
                #expect(summary.isFinished && summary.stopped == nil && summary.accepted == 100)
                let deliveries = sender.deliveries(of: samplePush(), to: tokens, options: options)
                for await _ in deliveries { #expect(!deliveries.control.progress.isFinished) }
                #expect(deliveries.control.progress.isFinished)
            }
        }
    }

    @Test("A call that is stopped by its control or whose task is cancelled is not finished")
    func stopped() async throws {
        try await withServer { client, _ in
            for sender in [client, RecordingPushSender()] as [any PushSender] {
                for cancels in [false, true] {
                    let control = BulkControl()
                    let run = Task {
                        let options = BulkOptions(control: control)
                        let rows = (0...).lazy.map { DeviceToken.sample($0) }
                        for await _ in sender.deliveries(of: samplePush(), to: rows, options: options) {
                            if cancels { withUnsafeCurrentTask { $0?.cancel() } } else { control.stop() }
                        }
                        return control.progress
                    }
                    let progress = await run.value
                    #expect(!progress.isFinished && Self.isEarly(progress.outcomes, .cancelled))
                    #expect(progress.outcomes.stopped?.message.contains(cancels ? "task" : "control") == true)
                    #expect(progress.outcomes.total == progress.pulled)
                }
                let control = BulkControl()
                control.stop()
                let options = BulkOptions(control: control)
                #expect(
                    Self.isEarly(await sender.sendAll(samplePush(), to: Self.tokens(9), options: options), .cancelled)
                )
                let rows = Self.stream(Self.tokens(9))
                #expect(Self.isEarly(await sender.sendAll(samplePush(), to: rows, options: options), .cancelled))
            }
        }
    }

    @Test("A call whose input was pulled before it is stopped is finished")
    func stoppedAtTheEnd() async throws {
        try await withServer { client, _ in
            let control = BulkControl()
            let options = BulkOptions(control: control)
            for await _ in client.deliveries(of: samplePush(), to: Self.tokens(1), options: options) { control.stop() }
            #expect(control.progress.isFinished && control.progress.outcomes.stopped == nil)
        }
    }

    @Test("A call that the client's shutdown ends is not finished, nor one that begins afterwards")
    func shutdown() async throws {
        try await withServer { client, server in
            let control = BulkControl()
            let (rows, row) = AsyncStream<DeviceToken>.makeStream()
            row.yield(.sample(0))
            let run = Task { await client.sendAll(samplePush(), to: rows, options: BulkOptions(control: control)) }
            await server.wait { $0.accepted.count == 1 }
            await client.shutdown()
            let summary = await run.value
            #expect(Self.isEarly(summary, .shuttingDown) && summary.accepted == 1)
            #expect(control.progress.outcomes == summary)
            let late = await client.sendAll(samplePush(), to: Self.tokens(9), options: BulkOptions(control: control))
            #expect(Self.isEarly(late, .shuttingDown) && late.total == 0)
            #expect(control.progress.outcomes == late)
        }
    }

    @Test("A call that too many rejected device tokens stop names that reason")
    func massRejection() async throws {
        try await withPatientSimulator { client, simulator in
            simulator.inject(Fault(.respond(.badDeviceToken), when: .always))
            let options = BulkOptions(massRejection: MassRejectionLimits(window: 20, rejections: 15))
            let summary = await client.sendAll(samplePush(), to: Self.tokens(5000), options: options)
            #expect(Self.isEarly(summary, .suspectedMisconfiguration))
        }
    }

    @Test("A call whose input throws or whose loop is left is not finished, and nothing stopped it")
    func others() async throws {
        struct Broken: Error {}
        try await withServer { client, _ in
            for sender in [client, RecordingPushSender()] as [any PushSender] {
                let control = BulkControl()
                let options = BulkOptions(control: control)
                let (rows, row) = AsyncThrowingStream<DeviceToken, any Error>.makeStream()
                for token in Self.tokens(5) { row.yield(token) }
                row.finish(throwing: Broken())
                await #expect(throws: Broken.self) {
                    _ = try await sender.sendAll(samplePush(), to: rows, options: options)
                }
                #expect(control.progress.outcomes.accepted == 5)
                #expect(Self.isEarly(control.progress.outcomes, nil))
                for await _ in sender.deliveries(of: samplePush(), to: Self.tokens(50), options: options) { break }
                #expect(Self.isEarly(control.progress.outcomes, nil))
            }
        }
    }
}
