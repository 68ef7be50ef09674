import APNSTransport
import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Bulk calls over real sockets: each element of the input comes back once, with the outcome of its push.
struct BulkTests {
    private struct Row: Equatable {
        var number: Int
        var token: String
    }

    /// Collects all outcomes by row number.
    private func outcomes(
        _ count: Int,
        _ client: APNSClient,
        options: BulkOptions = BulkOptions()
    ) async -> [[PushOutcome]] {
        var all = [[PushOutcome]](repeating: [], count: count)
        let deliveries = client.deliveries(
            of: samplePush(),
            to: 0..<count,
            token: { DeviceToken.sample($0) },
            options: options
        )
        for await delivery in deliveries { all[delivery.element].append(delivery.outcome) }
        return all
    }

    @Test(arguments: [0, 1, 63, 64, 65, 1000, 3000])
    func eachRowHasOneOutcome(_ count: Int) async throws {
        try await withServer { client, server in
            let all = await outcomes(count, client)
            #expect(all.allSatisfy { $0.count == 1 && $0[0].certainty == .accepted })
            #expect(server.record.processed.count == count)
            #expect(Set(server.record.pushes.map(\.token)).count == count)
            #expect(client.runtime.lifecycle.pushesInFlight == 0)
        }
    }

    @Test func anInvalidTokenFailsOnlyItsRow() async throws {
        try await withServer { client, server in
            let rows = (0..<200).map { Row(number: $0, token: $0 % 3 == 0 ? "not a token" : "ab\(100 + $0)0") }
            var failed = 0
            var accepted = 0
            for await delivery in client.deliveries(of: samplePush(), to: rows, token: { $0.token }) {
                #expect(rows[delivery.element.number] == delivery.element)
                if delivery.outcome.certainty == .accepted { accepted += 1 }
                if delivery.outcome.error?.code == .validation { failed += 1 }
            }
            #expect(failed == 67 && accepted == 133)
            #expect(server.record.pushes.count == 133)
        }
    }

    @Test(arguments: [1, 7, 64, 100])
    func noMorePushesAreInFlightThanAllowed(_ limit: Int) async throws {
        try await withServer { client, server in
            let all = await outcomes(limit == 1 ? 200 : 600, client, options: BulkOptions(maxInFlight: limit))
            #expect(all.allSatisfy { $0.count == 1 && $0[0].certainty == .accepted })
            #expect(server.record.mostOpenStreams <= limit)
        }
    }

    @Test func leavingTheLoopLetsPushesInFlightFinish() async throws {
        let script: ScriptedServer.Script = { $0.number == 1 ? [.respond(200)] : [.hold] }
        try await withServer(script: script) { client, server in
            for await delivery in client.deliveries(of: samplePush(), to: 0..<3000, token: { DeviceToken.sample($0) }) {
                #expect(delivery.outcome.certainty == .accepted)
                break
            }
            let sent = server.record.pushes.count
            #expect(sent >= 1 && sent < 3000)
            // A drain waits for pushes in flight, even though their outcomes are no longer consumed.
            let shutdown = Task { await client.shutdown() }
            await until { client.runtime.lifecycle.current == .draining }
            await server.wait { $0.held > 0 }
            #expect(client.runtime.lifecycle.current == .draining)
            await until {
                server.release()
                return client.runtime.lifecycle.current != .draining
            }
            await shutdown.value
            let record = server.record
            #expect(record.cancelled == 0)
            #expect(record.accepted.count == record.pushes.count)
        }
    }

    @Test func anEndlessInputIsPulledAtTheConsumersPace() async throws {
        let pulled = Atomic<Int>(0)
        try await withServer { client, _ in
            let endless = sequence(first: 0) { $0 + 1 }.lazy.map { number in
                pulled.wrappingAdd(1, ordering: .relaxed)
                return number
            }
            var taken = 0
            let options = BulkOptions(maxInFlight: 100)
            let deliveries = client.deliveries(
                of: samplePush(),
                to: endless,
                token: { DeviceToken.sample($0) },
                options: options
            )
            for await delivery in deliveries {
                #expect(delivery.outcome.certainty == .accepted)
                taken += 1
                #expect(pulled.load(ordering: .relaxed) <= taken + 201)
                if taken == 2000 { break }
            }
            #expect(taken == 2000)
        }
    }

    @Test func nothingIsPulledBeforeTheFirstNextNorAfterAShutdown() async throws {
        let pulled = Atomic<Int>(0)
        try await withServer { client, _ in
            let rows = (0..<10).lazy.map { number in
                pulled.wrappingAdd(1, ordering: .relaxed)
                return number
            }
            let deliveries = client.deliveries(of: samplePush(), to: rows, token: { DeviceToken.sample($0) })
            var iterator = deliveries.makeAsyncIterator()
            #expect(pulled.load(ordering: .relaxed) == 0)
            await client.shutdown()
            #expect(await iterator.next()?.element == nil)
            #expect(pulled.load(ordering: .relaxed) == 0)
        }
    }

    @Test func aShutdownEndsTheInputAndKeepsTheOutcomes() async throws {
        try await withServer(script: { _ in [.hold] }) { client, server in
            let run = Task {
                await client.sendAll(
                    samplePush(),
                    to: (0..<500).map { DeviceToken.sample($0) },
                    options: BulkOptions(maxInFlight: 100)
                )
            }
            await server.wait { $0.held == 100 }
            let shutdown = Task { await client.shutdown() }
            await until { client.runtime.lifecycle.current == .draining }
            server.release()
            let summary = await run.value
            #expect(summary.accepted == 100)
            #expect(summary.total == 100)
            await shutdown.value
        }
    }

    @Test func aShutdownWithoutTimeGivesEachPulledPushAnOutcome() async throws {
        try await withServer(limit: 10, script: { _ in [.hold] }) { client, server in
            let run = Task { await client.sendAll(samplePush(), to: (0..<500).map { DeviceToken.sample($0) }) }
            // A fifth of the streams is kept free for single pushes.
            await server.wait { $0.held == 8 }
            await client.shutdown(within: .zero)
            let summary = await run.value
            #expect(summary.unknown == 8)
            #expect(summary.notSent == summary.total - 8)
        }
    }

    @Test func aSinglePushIsSentWhileABulkCallWaitsForStreams() async throws {
        // Bulk pushes get no response during the check; a one-time code must not wait for them.
        let script: ScriptedServer.Script = { $0.deviceToken == deviceToken ? [.respond(200)] : [.hold] }
        try await withServer(limit: 10, script: script) { client, server in
            let run = Task { await client.sendAll(samplePush(), to: (1...100).map { DeviceToken.sample($0) }) }
            await server.wait { $0.held == 8 }
            await until { await client.status.pool.bulkQueueDepth == 1 }
            for _ in 0..<20 {
                #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            }
            #expect(server.record.held == 8)
            await until {
                server.release()
                return server.record.accepted.count == 120
            }
            #expect(await run.value.accepted == 100)
        }
    }

    @Test func twoBulkCallsShareTheStreams() async throws {
        try await withServer(limit: 50, script: { _ in [.hold] }) { client, server in
            let first = Task { await client.sendAll(samplePush(), to: (0..<400).map { DeviceToken.sample($0) }) }
            await server.wait { $0.held == 40 }
            let second = Task {
                await client.sendAll(samplePush(), to: (0..<400).map { DeviceToken.sample(1000 + $0) })
            }
            await until { await client.status.pool.bulkQueueDepth == 2 }
            // As streams become free, the second call gets its share of them.
            await until {
                server.release()
                return server.record.pushes.count >= 240
            }
            let tokens = server.record.pushes.suffix(200).compactMap(\.deviceToken)
            let ofTheSecond = tokens.count { token in (0..<400).contains { token == .sample(1000 + $0) } }
            #expect((40...160).contains(ofTheSecond), "\(ofTheSecond) of 200")
            await until {
                server.release()
                return server.record.accepted.count == 800
            }
            let accepted = await first.value.accepted + second.value.accepted
            #expect(accepted == 800)
        }
    }

    @Test func aCancelledConsumerReceivesThePushesInFlight() async throws {
        try await withServer(limit: 50, script: { _ in [.hold] }) { client, server in
            let control = BulkControl()
            let run = Task {
                await client.sendAll(
                    samplePush(),
                    to: sequence(first: 0) { $0 + 1 }.lazy.map { DeviceToken.sample($0) },
                    options: BulkOptions(control: control)
                )
            }
            await server.wait { $0.held == 40 }
            await until { await client.status.pool.bulkQueueDepth == 1 }
            run.cancel()
            // Responses that arrive before the call sees the cancellation would let it send more pushes.
            await until { control.progress.outcomes.notSent > 0 }
            server.release()
            let summary = await run.value
            #expect(summary.accepted == 40)
            #expect(summary.total == summary.accepted + summary.notSent, "\(summary)")
            #expect(summary.total <= 200)
        }
    }

    @Test func aPushThatWaitsForAStreamEndsAtItsDeadline() async throws {
        try await withServer(limit: 1, script: { _ in [.hold] }) { client, server in
            async let single = client.deliver(samplePush(), to: deviceToken)
            await server.wait { $0.held == 1 }
            let all = await outcomes(10, client, options: BulkOptions(deadline: .milliseconds(100)))
            #expect(all.allSatisfy { $0.count == 1 && $0[0].error?.code == .deadlineExceeded })
            #expect(all.allSatisfy { $0[0].certainty == .notSent })
            server.release()
            #expect(await single.certainty == .accepted)
        }
    }

    @Test func waitingPushesEndAtTheirDeadlineWhileOneIsHeld() async throws {
        let script: ScriptedServer.Script = { $0.number == 1 ? [.respond(200)] : [.hold] }
        let clock = ManualClock()
        try await withServer(limit: 1, script: script, configure: { $0.use(clock) }) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let run = Task { await outcomes(10, client, options: BulkOptions(deadline: .seconds(1))) }
            await server.wait { $0.held == 1 }
            #expect(await ends(advancing: clock) { _ = await run.value })
            let all = await run.value
            #expect(all.count { $0[0].certainty == .unknown } >= 1)
            #expect(all.allSatisfy { $0.count == 1 && $0[0].error?.code == .deadlineExceeded })
        }
    }

    @Test func returnedStreamsAreUsedWhileOnePushIsHeld() async throws {
        // The first bulk push is held throughout. The others wait for the stream of a single push.
        let script: ScriptedServer.Script = {
            [.sample(1), .sample(999)].contains($0.deviceToken) ? [.hold] : [.respond(200)]
        }
        try await withServer(limit: 2, script: script) { client, server in
            let single = Task { await client.deliver(samplePush(), to: DeviceToken.sample(999)) }
            await server.wait { $0.held == 1 }
            let rows = Task { await client.sendAll(samplePush(), to: (1...20).map { DeviceToken.sample($0) }) }
            await server.wait { $0.held == 2 }
            server.release(.sample(999))
            #expect(await single.value.certainty == .accepted)
            await server.wait { $0.accepted.count == 20 }
            server.release()
            #expect(await rows.value.accepted == 20)
        }
    }

    @Test func faultsDuringABulkCallLeaveExactOutcomes() async throws {
        let script: ScriptedServer.Script = { push in
            switch (push.connection, push.numberOnConnection) {
            case (1, 300): [.goAway(includingThis: false)]
            case (2, 200...205): [.respond(503, reason: "Shutdown")]
            case (3, 250): [.drop]
            case (_, let number) where number % 50 == 49: [.reset(.refusedStream)]
            default: [.respond(200)]
            }
        }
        try await withServer(script: script) { client, server in
            let all = await outcomes(3000, client, options: BulkOptions(maxInFlight: 200))
            compare(all, server.record)
            #expect(server.record.connections >= 4)
        }
    }

    private func compare(_ all: [[PushOutcome]], _ record: ScriptedServer.Record) {
        var unknown = 0
        var ids: [String: Set<String>] = [:]
        for push in record.pushes { ids[push.token, default: []].insert(push.id) }
        for (number, outcomes) in all.enumerated() {
            #expect(outcomes.count == 1)
            let sent = ids[DeviceToken.sample(number).hexadecimal] ?? []
            #expect(sent.count <= 1)
            switch outcomes.first?.certainty {
            case .accepted: #expect(record.accepted.contains(sent.first ?? ""))
            case .unknown: unknown += 1
            default: Issue.record("row \(number): \(outcomes)")
            }
        }
        #expect(unknown >= 1 && unknown <= 200)
    }

    @Test func resendsDoNotPileUp() async throws {
        let pulled = Atomic<Int>(0)
        try await withServer(limit: 50, script: { _ in [.reset(.refusedStream)] }) { client, _ in
            var finished = 0
            let rows = (0..<1000).lazy.map { number in
                pulled.wrappingAdd(1, ordering: .relaxed)
                return number
            }
            let options = BulkOptions(maxInFlight: 20, deadline: .milliseconds(300))
            for await delivery in client.deliveries(
                of: samplePush(),
                to: rows,
                token: { DeviceToken.sample($0) },
                options: options
            ) {
                // Unknown if the deadline came between the push and its refusal.
                #expect([.notProcessed, .notSent, .unknown].contains(delivery.outcome.certainty))
                finished += 1
                #expect(pulled.load(ordering: .relaxed) <= finished + 40)
                if finished == 60 { break }
            }
        }
    }

    @Test func severalBulkCallsAndSinglePushesShareOneConnection() async throws {
        try await withServer(limit: 20) { client, server in
            await withTaskGroup(of: Bool.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        await client.sendAll(samplePush(), to: (0..<300).map { DeviceToken.sample($0) }).accepted == 300
                    }
                }
                group.addTask {
                    await deliver(200, with: client).allSatisfy { $0.certainty == .accepted }
                }
                for await isAccepted in group { #expect(isAccepted) }
            }
            #expect(server.record.mostOpenStreams <= 20)
            #expect(server.record.pushes.count == 1400)
        }
    }
}
