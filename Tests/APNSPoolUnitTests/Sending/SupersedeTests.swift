import APNSSimulator
import Foundation
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

private let app = "com.example.app"

/// Pushes that supersede each other, against the simulator.
struct SupersedeTests {
    private struct State: Encodable { var score: Int }

    private static func update(_ score: Int) -> PushNotification {
        .liveActivityUpdate(topic: app, contentState: State(score: score))
    }

    private struct Payload: Decodable {
        struct APS: Decodable {
            struct Content: Decodable { var score: Int }
            var timestamp: Int64
            var event: String
            var content: Content?
            private enum CodingKeys: String, CodingKey {
                case timestamp, event
                case content = "content-state"
            }
        }
        var aps: APS
    }

    private func sent(_ payloads: [[UInt8]]) throws -> [Payload.APS] {
        try payloads.map { try JSONDecoder().decode(Payload.self, from: Data($0)).aps }
    }

    private let options = DeliveryOptions(supersedes: "match-42")

    /// A hundred updates of one activity while the server is slow.
    @Test func theFirstAndTheLastOfManyUpdatesArrive() async throws {
        var simulation = Simulator.Configuration()
        simulation.responseDelay = .milliseconds(200)
        try await withPatientSimulator(simulation: simulation, configure: { $0.pool.connectSpacing = .zero }) {
            client,
            simulator in
            var tasks: [Task<PushOutcome, Never>] = []
            for number in 0..<100 {
                tasks.append(
                    Task { await client.deliver(Self.update(number), to: DeviceToken.sample(1), options: self.options) }
                )
                // The push is queued before the next one arrives.
                await until { client.runtime.sending.supersedeQueue.arrivalCount == UInt64(number) + 1 }
                if number == 0 { await until { simulator.record.requestsReceived == 1 } }
            }
            var outcomes: [PushOutcome] = []
            for task in tasks { outcomes.append(await task.value) }
            #expect(outcomes.first?.certainty == .accepted)
            #expect(outcomes.last?.certainty == .accepted)
            let accepted = outcomes.filter { $0.certainty == .accepted }.count
            let superseded = outcomes.filter { $0.error?.code == .superseded }
            #expect(accepted + superseded.count == 100)
            #expect(superseded.count > 10)
            for outcome in superseded {
                #expect(outcome.certainty == .notSent && outcome.attempts == 0 && outcome.error?.canResend == false)
            }
            let sent = try self.sent(simulator.record.pushes.map(\.payload))
            #expect(sent.count == accepted)
            let scores = sent.compactMap { $0.content?.score }
            #expect(scores.first == 0 && scores.last == 99)
            #expect(scores == scores.sorted())
            #expect(zip(sent, sent.dropFirst()).allSatisfy { $0.timestamp < $1.timestamp })
            #expect(
                client.runtime.sending.supersedeQueue.keyCount == 0
                    && client.runtime.sending.supersedeQueue.waiterCount == 0
            )
        }
    }

    @Test func anEndIsSentEvenIfUpdatesFollow() async throws {
        try await withServer(script: { $0.number == 1 ? [.hold] : [.respond(200)] }) { client, server in
            func push(_ notification: PushNotification, _ number: UInt64) async -> Task<PushOutcome, Never> {
                let task = Task { await client.deliver(notification, to: DeviceToken.sample(1), options: self.options) }
                await until { client.runtime.sending.supersedeQueue.arrivalCount == number }
                return task
            }
            let first = await push(Self.update(1), 1)
            await server.wait { $0.held == 1 }
            let second = await push(Self.update(2), 2)
            let end = await push(.liveActivityEnd(topic: app), 3)
            let late = await push(Self.update(3), 4)
            server.release()
            #expect(await first.value.certainty == .accepted)
            #expect(await second.value.error?.code == .superseded)
            #expect(await end.value.certainty == .accepted)
            #expect(await late.value.certainty == .accepted)
            let events = try self.sent(server.record.pushes.map(\.body)).map(\.event)
            #expect(events == ["update", "end", "update"])
        }
    }

    @Test func aDeadlineOrCancellationEndsTheWait() async throws {
        try await withServer(script: { $0.number == 1 ? [.hold] : [.respond(200)] }) { client, server in
            let first = Task { await client.deliver(Self.update(1), to: DeviceToken.sample(1), options: self.options) }
            await server.wait { $0.held == 1 }
            var short = self.options
            short.deadline = .milliseconds(20)
            let late = await client.deliver(Self.update(2), to: DeviceToken.sample(1), options: short)
            #expect(late.error?.code == .deadlineExceeded && late.certainty == .notSent)
            let cancelled = Task {
                await client.deliver(Self.update(3), to: DeviceToken.sample(1), options: self.options)
            }
            await until { client.runtime.sending.supersedeQueue.waiterCount == 1 }
            cancelled.cancel()
            let outcome = await cancelled.value
            #expect(outcome.error?.code == .cancelled && outcome.certainty == .notSent)
            // Another device or key does not wait.
            let other = await client.deliver(Self.update(4), to: DeviceToken.sample(2), options: self.options)
            #expect(other.certainty == .accepted)
            server.release()
            #expect(await first.value.certainty == .accepted)
            #expect(
                client.runtime.sending.supersedeQueue.keyCount == 0
                    && client.runtime.sending.supersedeQueue.waiterCount == 0
            )
        }
    }
}
