import APNSModel
import APNSBasics
import TestSupport
import Testing

@testable import APNSSimulator
@testable import APNSTransport

/// The simulator's record, and the repetition of a run with the same seed.
struct RecordTests {
    private let jwt: String

    init() throws { self.jwt = try SimulatedKey().providerToken(issuedAt: Sample.now) }

    private func script(seed: UInt64?) -> FaultScript {
        FaultScript(
            [
                .share(0.1, of: .serviceUnavailable), Fault(.refuse, when: .probability(0.1)),
                Fault(.stall(isProcessed: true), when: .probability(0.05)),
                Fault(.reset(code: 2, isProcessed: true), when: .every(17)),
                Fault(.delay(.logNormal(median: .milliseconds(1), spread: 1)), when: .always),
            ],
            seed: seed
        )
    }

    /// The results of 300 pushes, in order.
    private func run(seed: UInt64, script: FaultScript) async throws -> [String] {
        var configuration = Simulator.Configuration()
        configuration.initialMaxConcurrentStreams = 1000
        configuration.seed = seed
        configuration.faults = script
        let simulator = try await Simulator.start(configuration)
        #expect(simulator.seed == seed)
        let client = try await RawClient.connect(simulator)
        client.start()
        for number in 0..<300 { client.push(Int32(number * 2 + 1), jwt: self.jwt) }
        try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsReceived == 300 }
        let pushes = simulator.record.pushes
        await client.close()
        await simulator.stop()
        return pushes.map { "\($0.streamID) \($0.fate) \($0.status ?? 0) \($0.isProcessed) \($0.faults)" }
    }

    @Test func theSameSeedGivesTheSameFaults() async throws {
        let first = try await self.run(seed: 11, script: self.script(seed: nil))
        #expect(try await self.run(seed: 11, script: self.script(seed: nil)) == first)
        #expect(try await self.run(seed: 12, script: self.script(seed: nil)) != first)
        let fixed = try await self.run(seed: 1, script: self.script(seed: 99))
        #expect(try await self.run(seed: 2, script: self.script(seed: 99)) == fixed)
        #expect((10...60).contains(first.count { $0.contains(" 503 ") }))
        #expect(first.count { $0.contains("\"reset\"") } > 5)
    }

    @Test(arguments: [Simulator.Recording.pushes, .pushesWithoutPayload, .ids, .counts])
    func theRecordShowsTheProcessedPushes(recording: Simulator.Recording) async throws {
        var configuration = Simulator.Configuration()
        configuration.recording = recording
        configuration.initialMaxConcurrentStreams = 1000
        configuration.faults = FaultScript([
            Fault(.stall(isProcessed: true), when: .nth(2)), Fault(.refuse, when: .nth(2)),
            Fault(.respond(ScriptedResponse(.internalServerError).with { $0.isProcessed = true }), when: .nth(2)),
            Fault(.reset(code: 2, isProcessed: true), when: .nth(2)),
        ])
        let simulator = try await Simulator.start(configuration)
        let client = try await RawClient.connect(simulator)
        client.start()
        // Accepted, stalled, refused, 500, reset, and the first push again.
        let ids = try (1...6).map { try #require(APNSID("00000000-0000-4000-8000-00000000000\($0 == 6 ? 1 : $0)")) }
        for (index, id) in ids.enumerated() { client.push(Int32(index * 2 + 1), jwt: self.jwt, id: "\(id)") }
        try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsReceived == 6 }
        let ledger = simulator.record
        #expect(ledger.requestsProcessed == 5 && ledger.streamsRefused == 1 && ledger.requestsWithoutResponse == 2)
        #expect(ledger.faults == ["stall": 1, "refuse": 1, "respond": 1, "reset": 1] && ledger.faultsApplied == 4)
        if recording == .counts {
            #expect(ledger.processedCounts.isEmpty && ledger.pushes.isEmpty)
        } else {
            #expect(ids.map { simulator.processedCount(of: $0) } == [2, 1, 0, 1, 1, 2])
            #expect(ids.map { ledger.processed(apnsID: $0) } == [true, true, false, true, true, true])
            #expect(ledger.duplicates == [ids[0]])
        }
        if recording == .pushes || recording == .pushesWithoutPayload {
            #expect(ledger.pushes.map(\.isProcessed) == [true, true, false, true, true, true])
            #expect(ledger.pushes.map(\.status) == [200, 200, nil, 500, 200, 200])
            #expect(ledger.pushes.map(\.faults) == [[], ["stall"], ["refuse"], ["respond"], ["reset"], []])
            #expect(ledger.pushes(apnsID: ids[0]).map(\.streamID) == [1, 11])
            #expect(ledger.pushes.allSatisfy { $0.payloadBytes == Sample.payload.utf8.count && $0.connection == 1 })
            #expect(ledger.pushes.allSatisfy { $0.payload.isEmpty == (recording == .pushesWithoutPayload) })
        } else {
            #expect(ledger.pushes.isEmpty)
        }
        await client.close()
        await simulator.stop()
    }

    /// Random bytes after a valid handshake.
    @Test func randomBytesDoNotCrashTheSimulator() async throws {
        let simulator = try await Simulator.start()
        var random = SplitMix64(seed: 2024)
        for round in 0..<120 {
            let client = try await RawClient.connect(simulator)
            if round.isMultiple(of: 4) {
                client.send((0..<Int(random.next() % 3000)).map { _ in UInt8(truncatingIfNeeded: random.next()) })
            } else {
                client.start()
                client.push(1, jwt: self.jwt)
                for _ in 0..<1 + random.next() % 12 { client.send(self.frame(round, &random)) }
            }
            if round.isMultiple(of: 3) { _ = try await client.wait { $0.end != nil || $0.frames.count > 1 } }
            await client.close()
        }
        try await simulator.waitUntil(timeout: Patience.limit) { $0.connectionsClosed == 120 }
        #expect(simulator.openConnections == 0)
        let client = try WireClient(simulator)
        #expect(await client.open())
        #expect(await client.send(1, jwt: self.jwt).map(\.status) == [200])
        await simulator.stop()
    }

    /// A frame of a random type, a header block of random bytes, or a push with random values.
    private func frame(_ round: Int, _ random: inout SplitMix64) -> [UInt8] {
        let count = Int(random.next() % 400)
        let payload = (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        let stream = Int32(truncatingIfNeeded: random.next() % 12)
        switch round % 4 {
        case 1:
            return RawFrame(
                type: UInt8(random.next() % 12),
                flags: UInt8(truncatingIfNeeded: random.next()),
                stream: .request,
                payload: payload,
                claimedLength: random.next().isMultiple(of: 5) ? UInt32(random.next() % 20_000) : nil
            ).bytes(requestStreamID: stream)
        case 2:
            return RawFrame(type: 1, flags: 5, stream: .request, payload: payload).bytes(requestStreamID: stream | 1)
        default:
            // Literal fields with random values after a complete set of pseudo-header fields.
            let names = [
                "apns-id", "apns-expiration", "apns-priority", "authorization", "apns-topic", "apns-push-type",
            ]
            var block: [UInt8] = [0x83, 0x87, 0x84, 0x01, 0x01, 0x78]
            for name in names {
                let value = (0..<Int(random.next() % 40)).map { _ in UInt8(0x20 + random.next() % 0x5F) }
                block += [0, UInt8(name.utf8.count)] + Array(name.utf8) + [UInt8(value.count)] + value
            }
            return RawFrame(type: 1, flags: 5, stream: .request, payload: block).bytes(requestStreamID: stream | 1)
        }
    }

    private static func record(channelID: String?) -> PushRecord {
        PushRecord(
            order: 7,
            connection: 1,
            streamID: 1,
            time: .now,
            milliseconds: 1_800_000_000_000,
            deviceToken: channelID == nil ? "aa" : "",
            channelID: channelID,
            topic: "com.example.app",
            expiration: 300,
            collapseID: "c",
            payload: Array(#"{"aps":{"badge":"3"}}"#.utf8),
            payloadBytes: 21,
            status: 200,
            reason: .badDeviceToken,
            fate: .responded,
            isProcessed: true,
            faults: []
        )
    }

    @Test("A record describes its push in one line, with its result")
    func descriptionOfARecord() {
        var record = Self.record(channelID: nil)
        record.payload = Array(#"{"aps":{"alert":{"title":"Order","body":"It has\nleft"}}}"#.utf8)
        record.pushType = .alert
        record.status = 400
        record.isProcessed = false
        #expect("\(record)" == #"#7 alert com.example.app → aa "Order – It has left" collapse c: 400 BadDeviceToken"#)
        record.collapseID = nil
        record.payload = []
        record.reason = nil
        (record.status, record.isProcessed, record.fate) = (200, true, .responded)
        #expect("\([record])" == "[#7 alert com.example.app → aa: 200]")
        record.fate = .stalled
        #expect("\(record)" == "#7 alert com.example.app → aa: stalled, processed")
        (record.status, record.fate) = (500, .responded)
        #expect("\(record)" == "#7 alert com.example.app → aa: 500, processed")
        (record.status, record.isProcessed, record.fate, record.topic) = (nil, false, .aboveGoAway, nil)
        #expect("\(record)" == "#7 alert → aa: above-goaway")
        let broadcast = "\(Self.record(channelID: "b=="))"
        #expect(broadcast == #"#7 com.example.app → channel b== "(no alert)" collapse c: 200 BadDeviceToken"#)
    }

    @Test("The description of a record with long and invalid values is one short line")
    func descriptionOfALongRecord() {
        var random = SplitMix64(seed: 7)
        let long = "e" + String(repeating: "\u{301}", count: 5_000) + "\r\n\u{2028}\u{0}"
        var record = Self.record(channelID: nil)
        (record.deviceToken, record.topic, record.collapseID) = (long, long, long)
        record.pushType = PushType(rawValue: long)
        record.reason = RejectionReason(rawValue: long)
        for round in 0..<200 {
            if round.isMultiple(of: 2) {
                record.payload = (0..<round).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            } else {
                record.payload = Array(#"{"aps":{"alert":"\#(String(long.reversed()))"#.utf8.dropLast(round)) + [0xFF]
            }
            let description = record.description
            #expect(description.unicodeScalars.count < 300)
            #expect(description.allSatisfy { !$0.isNewline })
        }
    }

    @Test("The hints for a record are about its headers, its payload and its provider token")
    func hintsOfARecord() {
        var record = Self.record(channelID: nil)
        let hints = record.hints.map(\.message)
        #expect(hints.count == 3)
        for (hint, words) in zip(hints, ["apns-push-type", "a duration", "aps.badge"]) { #expect(hint.contains(words)) }
        record.tokenNote = .issueTime
        #expect(record.hints.last?.message.hasPrefix("iat in the provider token") == true && record.hints.count == 4)
        record.tokenNote = .alphabet
        #expect(record.hints.last?.message.contains("plain Base64") == true)
        #expect(PushFilter(hasHints: true).matches(record) && !PushFilter(hasHints: false).matches(record))
        record.payload = []
        #expect(record.hints == [])
        // APNs rejects a broadcast without the headers that it needs.
        let broadcast = Self.record(channelID: "c").hints.map(\.message)
        #expect(broadcast == hints.filter { !$0.contains("apns-push-type") })
    }

    @Test("A device receives what a record contains, if the simulator accepted it")
    func acceptedPushOfARecord() throws {
        var record = Self.record(channelID: nil)
        let push = try #require(AcceptedPush(record))
        #expect(push.order == 7 && push.target == .token("aa") && push.topic == "com.example.app")
        #expect(push.time == 1_800_000_000_000)
        #expect(push.expiration == 300 && push.collapseID == "c" && push.payload == record.payload)
        let broadcast = AcceptedPush(Self.record(channelID: "c"), storage: .mostRecentMessage)
        #expect(broadcast?.target == .channel("c", storage: .mostRecentMessage))
        record.isProcessed = false
        #expect(AcceptedPush(record) == nil)
    }
}
