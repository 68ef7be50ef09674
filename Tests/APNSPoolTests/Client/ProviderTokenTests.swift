import Crypto
import Testing

@testable import APNSPool

/// The provider token on the wire, and what follows when it is refused.
@Suite(.timeLimit(.minutes(1)))
struct ProviderTokenTests {
    private func configure(_ configuration: inout APNSClientConfiguration) {
        configuration.authentication = .token(
            privateKey: P256.Signing.PrivateKey(),
            keyID: "9UC9ZLQ8YW",
            teamID: "ABBM6U9RM5"
        )
    }

    @Test func allPushesCarryOneToken() async throws {
        try await withServer(configure: configure) { client, server in
            let outcomes = await ClientOutcomeTests.deliver(100, with: client)
            #expect(outcomes.allSatisfy { $0.certainty == .accepted })
            let tokens = Set(server.record.pushes.map { $0.field("authorization") ?? "" })
            #expect(tokens.count == 1)
            #expect(tokens.first?.hasPrefix("bearer ") == true)
        }
    }

    @Test func anExpiredTokenIsSignedAnewOnceAndThePushResentOnce() async throws {
        let script: ScriptedServer.Script = { push in
            push.number == 2 ? [.answer(403, reason: "ExpiredProviderToken")] : [.answer(200)]
        }
        try await withServer(script: script, configure: configure) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == .accepted)
            #expect(outcome.attempts == 2)
            let pushes = server.record.pushes
            #expect(pushes.map(\.connection) == [1, 1, 2])
            #expect(Set(pushes.dropFirst().map(\.id)).count == 1)
        }
    }

    @Test func aServerThatCallsEveryTokenExpiredIsNotStormed() async throws {
        let script: ScriptedServer.Script = { _ in [.answer(403, reason: "ExpiredProviderToken")] }
        try await withServer(script: script, configure: configure) { client, server in
            let outcomes = await ClientOutcomeTests.deliver(200, with: client)
            #expect(outcomes.allSatisfy { $0.status == 403 && $0.attempts <= 2 })
            #expect(server.record.connections <= 3)
            #expect(Set(server.record.pushes.map { $0.field("authorization") ?? "" }).count <= 2)
        }
    }

    @Test func lateRefusalsOfTheOldConnectionLeaveTheNewOneAlone() async throws {
        // 30 pushes wait on the first connection; they are refused one after another while the second one serves.
        let script: ScriptedServer.Script = { push in
            push.connection == 1 && push.number > 1 ? [.hold] : [.answer(200)]
        }
        try await withServer(script: script, configure: configure) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let pushes = Task { await ClientOutcomeTests.deliver(30, with: client) }
            await server.wait { $0.held == 30 }
            for number in 0..<30 {
                server.release(.sample(number), status: 403, reason: "ExpiredProviderToken")
                await server.wait { $0.held == 29 - number }
            }
            #expect(await pushes.value.allSatisfy { $0.certainty == .accepted })
            #expect(server.record.connections == 2)
            #expect(server.record.processed.count == 31)
        }
    }
}
