import APNSSimulator
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A connection whose send window is full, because its server reads slowly.
struct FullWindowTests {
    @Test("Pushes that wait for the send window of a connection are sent on another one")
    func anotherConnection() async throws {
        var simulation = Simulator.Configuration()
        simulation.credential = .none
        let simulator = try await Simulator.start(simulation)
        simulator.inject(Fault(.slowReader(bytes: 1, every: .milliseconds(10)), when: .next))
        let clock = ManualClock()
        var configuration = APNSClientConfiguration.local(
            port: simulator.port,
            caPEM: simulator.certificateAuthorityPEM
        )
        configuration.use(clock)
        configuration.pool = .init(size: 1, maxOverflow: 1, connectSpacing: .zero)
        try await withAPNSClient(configuration: configuration) { client in
            // From the response on, the first connection reads almost nothing.
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let start = clock.now
            let text = String(repeating: "x", count: 3900)
            let push = samplePush(payload: #"{"aps":{"alert":"\#(text)"}}"#)
            let tokens = (0..<100).map { DeviceToken.sample($0) }
            let options = BulkOptions(deadline: .seconds(10))
            let call = Task { await client.sendAll(push, to: tokens, options: options) }
            await until { await client.status.pool.leased == 100 }
            // The window does not grow. The pushes that have waited for two seconds at a check are returned.
            for check in 1...5 {
                try await clock.advance(toWakeUpAt: start.advanced(by: .milliseconds(500 * check)))
            }
            await until { simulator.record.pushes.count > 60 }
            await until { await client.status.pool.leased <= 30 }
            #expect(Set(simulator.record.pushes.map(\.connection)).count == 2)
            // The remaining pushes miss their deadlines, because the first connection never gets through.
            clock.advance(by: .seconds(10))
            let summary = await call.value
            #expect(summary.accepted >= 60 && summary.unknown <= 25, "\(summary)")
        }
        await simulator.stop()
    }
}
