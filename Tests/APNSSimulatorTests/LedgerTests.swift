import APNSModel
import Synchronization
import TestSupport
import Testing

@testable import APNSSimulator
@testable import APNSTransport

/// The limit of the ledger, and questions about the recorded pushes.
struct LedgerTests {
    /// Long enough for a busy machine.

    private let jwt: String

    init() throws { self.jwt = try SimulatedKey().providerToken(issuedAt: Sample.now) }

    /// Runs `body` with a simulator that has received `count` pushes. The last digit of the device token is the push's
    /// number, and every third push is rejected.
    private func with(
        _ count: Int,
        keep: Int? = nil,
        _ body: (Simulator, RawClient) async throws -> Void
    ) async throws {
        var configuration = Simulator.Configuration()
        configuration.initialMaxConcurrentStreams = 1000
        configuration.keep = keep
        let simulator = try await Simulator.start(configuration)
        simulator.inject(Fault(.respond(.badTopic), when: .every(3)))
        let client = try await RawClient.connect(simulator)
        client.start()
        for number in 0..<count {
            client.push(Int32(number * 2 + 1), jwt: self.jwt, token: "0\(number % 10)")
        }
        try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsReceived == count }
        try await body(simulator, client)
        await client.close()
        await simulator.stop()
    }

    @Test("The ledger drops the oldest pushes above its limit, and says how many")
    func limit() async throws {
        try await self.with(250, keep: 100) { simulator, _ in
            let ledger = simulator.record
            #expect(ledger.dropped + ledger.pushes.count == 250)
            #expect((100...110).contains(ledger.pushes.count))
            #expect(ledger.pushes.map(\.order) == Array(ledger.dropped + 1...250))
            #expect(ledger.lastOrder == 250 && ledger.requestsReceived == 250)
            #expect(ledger.outcomes == [.accepted: 167, .rejected: 83])
            // The ids of dropped pushes are forgotten too.
            #expect(ledger.processedCounts.count == ledger.pushes.count { $0.isProcessed })
        }
    }

    @Test("Pushes are selected by their values and by position, from either end")
    func selection() async throws {
        try await self.with(20) { simulator, _ in
            #expect(simulator.received().map(\.order) == Array(1...20))
            let rejected = PushFilter(outcome: .rejected, reason: .badTopic)
            #expect(simulator.received(rejected).map(\.order) == [3, 6, 9, 12, 15, 18])
            #expect(simulator.received(rejected, after: 6, limit: 2).map(\.order) == [9, 12])
            #expect(simulator.received(PushFilter(deviceToken: "04")).map(\.order) == [5, 15])
            #expect(simulator.received(PushFilter(deviceToken: "04", outcome: .accepted)).map(\.order) == [5])
            #expect(simulator.received(PushFilter(topic: "com.example.other")).isEmpty)
            #expect(simulator.received(PushFilter(pushType: .background)).isEmpty)
            #expect(simulator.received(PushFilter(collapseID: "x")).isEmpty)
            #expect(simulator.received(PushFilter(channelID: "x")).isEmpty)
            let id = try #require(simulator.received()[7].apnsID)
            #expect(simulator.received(PushFilter(apnsID: id)).map(\.order) == [8])
            let newest = PushPage(before: 12, limit: 3, newestFirst: true)
            #expect(simulator.received(PushFilter(), newest).map(\.order) == [11, 10, 9])
            #expect(simulator.received(PushFilter(), PushPage(after: 30)).isEmpty)
        }
    }

    @Test("Waiting ends with the last push that was missing, and counts those before the call")
    func waiting() async throws {
        try await self.with(4) { simulator, client in
            let filter = PushFilter(deviceToken: "0F")
            let waiting = Task { try await simulator.waitFor(2, filter, timeout: Patience.limit) }
            client.push(101, jwt: self.jwt, token: "0f")
            try await simulator.waitFor(1, filter, timeout: Patience.limit)
            client.push(103, jwt: self.jwt, token: "0e")
            client.push(105, jwt: self.jwt, token: "0f")
            #expect(try await waiting.value.map(\.streamID) == [101, 105])
            #expect(try await simulator.waitFor(4, timeout: Patience.limit).map(\.order) == [1, 2, 3, 4])
            #expect(try await simulator.waitFor(1, filter, after: 5, timeout: Patience.limit).map(\.order) == [7])
            #expect(try await simulator.waitFor(0, timeout: Patience.limit).isEmpty)
            let error = try #require(
                await #expect(throws: SimulatorError.self) {
                    try await simulator.waitFor(3, filter, timeout: .milliseconds(1))
                }
            )
            #expect(error.code == .timedOut)
            #expect(error.message.hasPrefix("2 of 3 matching pushes arrived"))
        }
    }

    @Test("A push that has arrived is found even without time to wait, and dropped pushes count")
    func waitingAcrossTheLimit() async throws {
        try await self.with(0, keep: 2) { simulator, client in
            async let waiting = simulator.waitFor(2, PushFilter(deviceToken: "0a"), timeout: Patience.limit)
            // Otherwise the first push may be dropped before.
            #expect(await eventually { simulator.core.state.withLock { !$0.waiters.isEmpty } })
            for number in 0..<10 {
                client.push(Int32(number * 2 + 1), jwt: self.jwt, token: number % 9 == 0 ? "0a" : "0b")
                // The ledger is not cut in the middle of a batch.
                try await simulator.waitUntil(timeout: Patience.limit) { $0.requestsReceived == number + 1 }
            }
            #expect(try await waiting.map(\.order) == [1, 10])
            for _ in 0..<200 {
                let found = try await simulator.waitFor(1, PushFilter(deviceToken: "0a"), timeout: .zero)
                #expect(found.map(\.order) == [10])
            }
        }
    }

    @Test("A ledger with the largest limit keeps everything")
    func largestLimit() async throws {
        try await self.with(3, keep: .max) { simulator, _ in
            #expect(simulator.received().map(\.order) == [1, 2, 3])
        }
    }

    @Test("A reset puts the clock back")
    func clock() async throws {
        try await self.with(0) { simulator, client in
            simulator.setClockOffset(seconds: 7200)
            client.push(1, jwt: self.jwt, token: "0a")
            let early = try await simulator.waitFor(1, timeout: Patience.limit)
            #expect(early.first?.reason == .expiredProviderToken)
            simulator.reset()
            client.push(3, jwt: self.jwt, token: "0a")
            let late = try await simulator.waitFor(1, timeout: Patience.limit)
            #expect(late.first?.status == 200)
        }
    }

    @Test("After a reset, the simulator is as new, and positions go on")
    func reset() async throws {
        try await self.with(4) { simulator, client in
            simulator.setToken("0a", .busy)
            simulator.inject(.serviceUnavailable(count: 5))
            try simulator.addDevice("Phone")
            #expect(simulator.activeFaults.count == 2 && simulator.tokenStates == ["0a": .busy])
            simulator.reset()
            let ledger = simulator.record
            #expect(ledger.pushes.isEmpty && ledger.requestsReceived == 0 && ledger.outcomes.isEmpty)
            #expect(ledger.lastOrder == 4 && ledger.resets == 1)
            #expect(simulator.activeFaults.isEmpty && simulator.tokenStates.isEmpty && simulator.devices.isEmpty)
            client.push(101, jwt: self.jwt, token: "0a")
            #expect(try await simulator.waitFor(1, timeout: Patience.limit).map(\.order) == [5])
            #expect(simulator.received().map(\.status) == [200])
        }
    }

    @Test("A record has the fields of the request except the authorization, and the key of the token")
    func fields() async throws {
        try await self.with(1) { simulator, _ in
            let push = try #require(simulator.received().first)
            let names = push.headers.map(\.name)
            #expect(names.contains("apns-topic") && names.contains("apns-push-type"))
            #expect(!names.contains("authorization") && !names.contains { $0.hasPrefix(":") })
            #expect(push.keyID?.count == 10 && push.teamID?.count == 10)
            #expect(push.payloadLimit == 4096)
        }
    }

    @Test("The record says how long the response was held back")
    func delay() async throws {
        try await self.with(1) { simulator, client in
            simulator.inject(Fault(.delay(.milliseconds(3)), when: .next))
            client.push(101, jwt: self.jwt, token: "00")
            client.push(103, jwt: self.jwt, token: "00")
            let pushes = try await simulator.waitFor(3, timeout: Patience.limit)
            #expect(pushes.map(\.delay) == [.zero, .milliseconds(3), .zero])
        }
    }

    @Test("Active faults show how often they matched and applied, and can be removed one by one")
    func activeFaults() async throws {
        try await self.with(4) { simulator, client in
            let every = try #require(simulator.activeFaults.first)
            #expect(every.id == 1 && every.matched == 4 && every.applied == 1)
            #expect(every.fault == Fault(.respond(.badTopic), when: .every(3)))
            let added = simulator.inject(
                FaultScript([
                    .serviceUnavailable(count: 2), Fault(.respond(.badTopic), when: .next(0)),
                ])
            )
            #expect(added.map(\.id) == [2])
            #expect(simulator.removeFault(id: 1) && !simulator.removeFault(id: 1))
            client.push(101, jwt: self.jwt, token: "00")
            try await simulator.waitFor(5, timeout: Patience.limit)
            #expect(simulator.activeFaults.map(\.id) == [2] && simulator.activeFaults.first?.applied == 1)
            client.push(103, jwt: self.jwt, token: "00")
            #expect(try await simulator.waitFor(6, timeout: Patience.limit).map(\.status).suffix(2) == [503, 503])
            #expect(simulator.activeFaults.isEmpty)
            // A fault whose time is over is not listed.
            let past = simulator.inject(Fault(.respond(.badTopic), when: .during(.zero..<(.zero))))
            #expect(past.isEmpty && simulator.activeFaults.isEmpty)
            #expect(!simulator.removeFault(id: 5) && !simulator.removeFault(id: 4))
        }
    }

    @Test("A busy device token gets 429 TooManyRequests")
    func busy() async throws {
        try await self.with(0) { simulator, client in
            simulator.setToken("0A", .busy)
            client.push(1, jwt: self.jwt, token: "0a")
            let push = try #require(try await simulator.waitFor(1, timeout: Patience.limit).first)
            #expect(push.status == 429 && push.reason == .tooManyRequests)
        }
    }

    @Test("A device receives accepted pushes to its tokens, and a token without a device is answered from the record")
    func devices() async throws {
        try await self.with(0) { simulator, client in
            let token = VirtualDevice.Token(token: "0a", kind: .app, topic: "com.example.app")
            let id = try simulator.addDevice("Phone", tokens: [token])
            // The third push is rejected.
            for (index, token) in ["0a", "0b", "0a", "0a"].enumerated() {
                client.push(Int32(index * 2 + 1), jwt: self.jwt, token: token)
            }
            try await simulator.waitFor(4, timeout: Patience.limit)
            let snapshot = try #require(simulator.snapshot(ofDevice: id))
            #expect(snapshot.apps.first?.notifications.map(\.order) == [4, 1])
            #expect(simulator.snapshot(ofToken: "0A").with(timeOf: snapshot) == snapshot)
            #expect(simulator.snapshot(ofToken: "0b").apps.first?.notifications.map(\.order) == [2])
            #expect(simulator.snapshot(ofToken: "0c").apps.isEmpty)
            #expect(simulator.device(ofToken: "0A") == id && simulator.snapshot(ofDevice: "d9") == nil)
            #expect(throws: VirtualDeviceError.self) { try simulator.addDevice("Other", tokens: [token]) }
        }
    }
}

extension VirtualDevice.Snapshot {
    /// This snapshot with the time of another.
    fileprivate func with(timeOf other: Self) -> Self {
        var copy = self
        copy.nowMilliseconds = other.nowMilliseconds
        return copy
    }
}
