import APNSSimulator
import Logging
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A wrong environment must never be reported as 100,000 dead device tokens.
struct MassRejectionTests {
    @Test func tokensOfTheOtherEnvironmentStopABulkCall() async throws {
        let (logger, lines) = RecordingLog.make()
        try await withPatientSimulator(configure: {
            $0.logger = logger
            $0.pool = .init(size: 4, maxOverflow: 4, connectSpacing: .zero)
        }) { client, simulator in
            simulator.inject(Fault(.respond(.badDeviceToken), when: .always))
            var pulled = 0
            let tokens = (0..<100_000).lazy.map { number in
                pulled += 1
                return DeviceToken.sample(number)
            }
            var rejected = 0
            var stopped: [PushError] = []
            for await delivery in client.deliveries(of: samplePush(), to: tokens, token: { $0 }) {
                #expect(delivery.outcome.invalidation == nil)
                switch delivery.outcome.error?.code {
                case .some(.rejected): rejected += 1
                case .some(.suspectedMisconfiguration): stopped.append(try #require(delivery.outcome.error))
                default: Issue.record("\(delivery.outcome)")
                }
            }
            #expect(simulator.record.requestsReceived < 2000, "\(simulator.record.requestsReceived)")
            #expect(rejected == simulator.record.requestsReceived)
            #expect(rejected + stopped.count < 2000)
            let error = try #require(stopped.first)
            #expect(stopped.allSatisfy { $0.certainty == .notSent })
            for part in ["custom", "localhost", "com.example.app", "BadDeviceToken", "key id"] {
                #expect(error.message.contains(part), "'\(part)' is missing in: \(error.message)")
            }
            #expect(await client.status.suspectsMisconfiguration)
        }
        #expect(lines.count(.critical, containing: "most device tokens are refused") == 1)
    }

    @Test func theSummaryStatesTheReasonAndTheUnsentPushes() async throws {
        try await withPatientSimulator { client, simulator in
            simulator.inject(Fault(.respond(.deviceTokenNotForTopic), when: .always))
            let tokens = (0..<5000).map { DeviceToken.sample($0) }
            let options = BulkOptions(massRejection: MassRejectionLimits(window: 20, rejections: 15))
            let summary = await client.sendAll(samplePush(), to: tokens, options: options)
            #expect(summary.stopped?.code == .suspectedMisconfiguration)
            #expect(summary.total < 2000)
            #expect(summary.notSent >= 1)
        }
    }

    @Test func aBulkCallThatEndsAtTheRejectionLimitIsComplete() async throws {
        try await withPatientSimulator { client, simulator in
            simulator.inject(Fault(.respond(.topicDisallowed), when: .always))
            let tokens = (0..<150).map { DeviceToken.sample($0) }
            let summary = await client.sendAll(samplePush(), to: tokens)
            #expect(summary.rejected == 150 && summary.total == 150)
            #expect(await client.status.suspectsMisconfiguration)
        }
    }

    @Test func oneBadTokenInTwoIsNotAMisconfiguration() async throws {
        try await withPatientSimulator { client, simulator in
            let tokens = (0..<1500).map { DeviceToken.sample($0) }
            for token in tokens.indices where token % 2 == 0 { simulator.setToken(tokens[token].hexadecimal, .bad) }
            let summary = await client.sendAll(samplePush(), to: tokens)
            #expect(summary.accepted == 750 && summary.rejected == 750 && summary.stopped == nil, "\(summary)")
            #expect(await !client.status.suspectsMisconfiguration)
        }
    }

    @Test func unregisteredTokensAreNotAMisconfiguration() async throws {
        try await withPatientSimulator { client, simulator in
            simulator.inject(Fault(.respond(.unregistered, timestamp: 1_700_000_000_000), when: .always))
            let tokens = (0..<1000).map { DeviceToken.sample($0) }
            let summary = await client.sendAll(samplePush(), to: tokens)
            #expect(summary.rejected == 1000 && summary.stopped == nil)
        }
    }

    @Test func rejectionsStopNothingIfTheLimitsAreOff() async throws {
        try await withPatientSimulator(configure: { $0.massRejection = .off }) { client, simulator in
            simulator.inject(Fault(.respond(.badDeviceToken), when: .always))
            let summary = await client.sendAll(samplePush(), to: (0..<1500).map { DeviceToken.sample($0) })
            #expect(summary.rejected == 1500)
            #expect(await !client.status.suspectsMisconfiguration)
        }
    }

    @Test("A bulk call whose own limits are off is not stopped, and its rejections raise the client's alarm")
    func offForTheCall() async throws {
        let (logger, lines) = RecordingLog.make()
        try await withPatientSimulator(configure: { $0.logger = logger }) { client, simulator in
            simulator.inject(Fault(.respond(.badDeviceToken), when: .next(1500)))
            let tokens = (0..<1500).map { DeviceToken.sample($0) }
            let options = BulkOptions(massRejection: .off)
            let summary = await client.sendAll(samplePush(), to: tokens, options: options)
            #expect(summary.rejected == 1500 && summary.stopped == nil)
            #expect(await client.status.suspectsMisconfiguration)
            let others = (1500..<4000).map { DeviceToken.sample($0) }
            #expect(await client.sendAll(samplePush(), to: others, options: options).accepted == 2500)
            #expect(await !client.status.suspectsMisconfiguration)
        }
        #expect(lines.count(.critical, containing: "most device tokens are refused") == 1)
    }

    @Test func rejectedSinglePushesAreLoggedAndSetTheStatusFlag() async throws {
        let (logger, lines) = RecordingLog.make()
        try await withPatientSimulator(configure: {
            $0.logger = logger
            $0.massRejection = MassRejectionLimits(window: 20, rejections: 15)
        }) { client, simulator in
            simulator.inject(Fault(.respond(.badDeviceToken), when: .next(40)))
            for number in 0..<40 {
                let outcome = await client.deliver(samplePush(), to: DeviceToken.sample(number))
                #expect(outcome.error?.rejection?.reason == .badDeviceToken && outcome.invalidation == nil)
            }
            #expect(await client.status.suspectsMisconfiguration)
            for number in 40..<60 {
                #expect(await client.deliver(samplePush(), to: DeviceToken.sample(number)).certainty == .accepted)
            }
            #expect(await !client.status.suspectsMisconfiguration)
        }
        #expect(lines.count(.critical, containing: "most device tokens are refused") == 1)
        #expect(lines.count(.notice, containing: "most device tokens are accepted again") == 1)
    }
}
