import APNSModel
import ArgumentParser
import Testing

@testable import APNSCommand

/// When a run of `apns bulk` stops because nothing can be sent.
struct BulkStopTests {
    private static func hold(
        _ code: PushError.Code,
        _ message: String = "m",
        retryAfter: Duration? = nil,
        reason: RejectionReason? = nil
    ) -> PushError {
        let rejection = reason.map { Rejection(status: $0.status ?? 0, reason: $0) }
        return PushError(
            code: code,
            certainty: .notSent,
            message: message,
            retryAfter: retryAfter,
            rejection: rejection
        )
    }

    private static let updates = "429 TooManyProviderTokenUpdates: the provider token was changed too often"
    private static let expired = "403 ExpiredProviderToken: the provider token is older than an hour"
    private static let invalid = "APNs refuses the credential on each new connection: 403 InvalidProviderToken"

    @Test("A wrong configuration or credential stops the run at once")
    func configuration() {
        for hold in [
            Self.hold(.configuration), Self.hold(.suspectedMisconfiguration), Self.hold(.credential, Self.invalid),
            Self.hold(.credential, "the signer failed", retryAfter: .seconds(1)),
        ] {
            #expect(BulkStop(hold, lasted: .zero) == .configuration(hold))
            #expect(hold.isConfigurationFault)
        }
    }

    @Test("An outage that is not about the credential never stops the run")
    func outage() {
        for hold in [
            Self.hold(.unavailable, "503 ServiceUnavailable", retryAfter: .seconds(900)), Self.hold(.queueFull),
            Self.hold(.deadlineExceeded), Self.hold(.unavailable, reason: .serviceUnavailable),
            // The reason alone is not enough.
            Self.hold(.unavailable, Self.updates, retryAfter: .seconds(1200)),
        ] {
            #expect(BulkStop(hold, lasted: .seconds(86_400)) == nil)
            #expect(!hold.isConfigurationFault)
        }
    }

    @Test("Too many updates of the provider token stop the run once the wait is longer than a minute")
    func tokenUpdates() {
        for hold in [
            Self.hold(.credential, Self.updates, retryAfter: .seconds(1199)),
            Self.hold(.credential, retryAfter: .seconds(61), reason: .tooManyProviderTokenUpdates),
        ] {
            #expect(BulkStop(hold, lasted: .zero) == .tokenUpdates(hold))
        }
        for retryAfter in [nil, Duration.seconds(60), .seconds(1)] {
            let hold = Self.hold(.credential, Self.updates, retryAfter: retryAfter)
            #expect(BulkStop(hold, lasted: .seconds(59)) == nil)
            #expect(BulkStop(hold, lasted: .seconds(60)) == .tokenUpdates(hold))
            // The run can be resumed: nothing has to be corrected.
            #expect(!hold.isConfigurationFault)
        }
    }

    @Test("Expired provider tokens stop the run after a minute")
    func clock() {
        let hold = Self.hold(.credential, Self.expired, retryAfter: .seconds(1))
        #expect(BulkStop(hold, lasted: .seconds(59)) == nil)
        #expect(BulkStop(hold, lasted: .seconds(60)) == .clock(hold))
        #expect(!hold.isConfigurationFault)
        let named = Self.hold(.credential, reason: .expiredProviderToken)
        #expect(BulkStop(named, lasted: .seconds(61)) == .clock(named))
    }

    @Test("The minute begins again when the cause changes or pushes are sent")
    func watch() {
        var watch = HoldWatch()
        let start = ContinuousClock.now
        func stop(_ hold: PushError?, _ seconds: Int) -> BulkStop? {
            watch.stop(hold, now: start.advanced(by: .seconds(seconds)))
        }
        let expired = Self.hold(.credential, Self.expired)
        let updates = Self.hold(.credential, Self.updates)
        let outage = Self.hold(.unavailable)
        for (hold, seconds) in [
            (nil, 0), (expired, 10), (expired, 69), (nil, 70), (expired, 71), (updates, 100), (outage, 150),
            (updates, 170),
        ] {
            #expect(stop(hold, seconds) == nil)
        }
        // Only the time differs.
        let later = Self.hold(.credential, Self.updates, retryAfter: .seconds(20))
        #expect(stop(later, 229) == nil)
        #expect(stop(later, 230) == .tokenUpdates(later))
    }

    @Test("The message says until when, or what to do")
    func messages() {
        func message(_ stop: BulkStop) -> String { stop.message(now: 1000) { "at \($0)" } }
        let hint = "With --token-file, all runs and processes with this key share one provider token."
        let wait = Self.hold(.credential, "429", retryAfter: .milliseconds(1_199_500))
        #expect(
            message(.tokenUpdates(wait))
                == "429. No new provider token is possible until at 2199, for 20 minutes. \(hint)"
        )
        let short = Self.hold(.credential, "429", retryAfter: .seconds(5))
        #expect(message(.tokenUpdates(short)).hasSuffix(" until at 1005, for 1 minute. \(hint)"))
        #expect(message(.tokenUpdates(Self.hold(.credential, "429"))).hasSuffix("for up to 20 minutes. \(hint)"))
        #expect(message(.clock(wait)).contains("check this machine's clock"))
        #expect(message(.configuration(wait)) == "429")
        #expect(WallTime.timeOfDay(1_700_000_000).contains(/^[0-2][0-9]:[0-5][0-9]$/))
    }

    @Test("A run that expired provider tokens stopped ends with 78, one that waits for a new token with 75")
    func exitStatus() {
        var counts = OutcomeCounts()
        for message in [Self.updates, Self.expired] { counts.count(.failed(Self.hold(.credential, message))) }
        #expect(counts.status.rawValue == 75)
        counts.stop(because: Self.hold(.credential, Self.expired))
        #expect(counts.status.rawValue == 78)
    }
}
