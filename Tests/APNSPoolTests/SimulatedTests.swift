import APNSSimulator
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct SimulatedTests {
    private let notification = PushNotification(topic: "com.example.app", alert: "Hello")

    private func token(_ number: Int) throws -> DeviceToken {
        let digits = String(number, radix: 16)
        return try DeviceToken(String(repeating: "0", count: 64 - digits.count) + digits)
    }

    @Test func aPushIsAcceptedOnceAndReturnsItsID() async throws {
        try await withPatientSimulator { client, simulator in
            let receipt = try await client.send(notification, to: token(1))
            let ledger = simulator.record
            #expect(ledger.pushes.count == 1)
            #expect(ledger.pushes.first?.apnsID == receipt.apnsID)
            #expect(ledger.pushes.first?.topic == "com.example.app")
            #expect(receipt.apnsUniqueID != nil)
        }
    }

    @Test func aDeadTokenHasItsInvalidationTime() async throws {
        try await withPatientSimulator { client, simulator in
            let dead = try token(1)
            simulator.setToken(dead.hexadecimal, .unregistered(sinceMilliseconds: 1_700_000_000_123))
            let outcome = await client.deliver(notification, to: dead)
            #expect(outcome.certainty == .rejected)
            #expect(outcome.invalidation?.millisecondsSince1970 == 1_700_000_000_123)
            #expect(!outcome.canResend)
        }
    }

    @Test func allPushesSurviveBurstsGoAwaysAndRefusals() async throws {
        let total = 3000
        try await withPatientSimulator(configure: { $0.pool = .init(size: 2, maxOverflow: 2, connectSpacing: .zero) }) {
            client,
            simulator in
            simulator.inject(
                FaultScript([
                    Fault(.respond(.serviceUnavailable), when: .nth(500, times: 30)),
                    Fault(.goAway(.beforeThisRequest, reason: "Shutdown"), when: .nth(1500)),
                    Fault(.refuse, when: .nth(2500, times: 20)),
                ])
            )
            let push = try notification.prepared()
            let tokens = try (0..<total).map { try token($0) }
            var ids: Set<APNSID> = []
            var resent = 0
            for await delivery in client.deliveries(of: push, to: tokens, token: { $0 }) {
                #expect(delivery.outcome.certainty == .accepted, "\(delivery.outcome)")
                if let receipt = delivery.outcome.receipt {
                    ids.insert(receipt.apnsID)
                    if receipt.attempts > 1 { resent += 1 }
                }
            }
            let ledger = simulator.record
            #expect(ids.count == total)
            #expect(resent > 0)
            #expect(ledger.pushes.count { $0.status == 503 } == 30)
            #expect(ledger.processedCounts.count == total)
            #expect(ledger.processedCounts.values.allSatisfy { $0 == 1 })
        }
    }
}
