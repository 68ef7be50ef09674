import APNSModel
import APNSSimulator

/// The faults of the server during a soak: some at random, and some that come back every few minutes.
enum SoakFaults {
    static let seed: UInt64 = 21

    static let all: [Fault] = [
        // The device token of `check`, whose pushes are not counted.
        Fault(.respond(.badDeviceToken), when: .deviceToken(String(repeating: "0", count: 64))),
        Fault(.delay(.exponential(mean: .milliseconds(3))), when: .probability(0.2)),
        Fault(.respond(.serviceUnavailable), when: .probability(0.001)),
        Fault(.respond(.internalServerError), when: .probability(0.001)),
        Fault(.respond(.unregistered, timestamp: 1_700_000_000_000), when: .probability(0.002)),
        Fault(.respond(.badDeviceToken), when: .probability(0.002)),
        Fault(.respond(.tooManyRequests), when: .probability(0.001)),
        Fault(.malformedBody(), when: .probability(0.001)),
        Fault(.oversizedBody(bytes: 100_000), when: .probability(0.0002)),
        Fault(.refuse, when: .probability(0.001)),
        Fault(.reset(code: 2, isProcessed: true), when: .probability(0.0005)),
        Fault(.stall(isProcessed: true), when: .probability(0.0002)),
        Fault(.goAway(.beforeThisRequest), when: .probability(0.00002)),
        Fault(.dropConnection(isProcessed: true), when: .probability(0.00002)),
        Fault(.handshakeStall(), when: FaultTrigger(times: nil, probability: 0.05)),
        // Faults that repeat: a pause of all responses, an outage with closed connections, and so on. Their intervals
        // are chosen so that they coincide in changing ways.
        Fault(.pause(.seconds(3), everywhere: true), when: .at(.seconds(31), every: .seconds(113), times: nil)),
        Fault(.listenerDown(.seconds(8)), when: .at(.seconds(47), every: .seconds(191), times: nil)),
        Fault(.dropConnection(), when: .at(.seconds(47), every: .seconds(191), times: nil)),
        Fault(.gracefulGoAway(notice: .milliseconds(200)), when: .at(.seconds(59), every: .seconds(151), times: nil)),
        Fault(.silence, when: .at(.seconds(83), every: .seconds(271), times: nil)),
        Fault(
            .settings(maxConcurrentStreams: 5),
            when: .at(.seconds(97), every: .seconds(229), times: nil)
        ),
        Fault(
            .settings(maxConcurrentStreams: 1000),
            when: .at(.seconds(107), every: .seconds(229), times: nil)
        ),
        Fault(.pingFlood(2000), when: .at(.seconds(67), every: .seconds(173), times: nil)),
    ]
}
