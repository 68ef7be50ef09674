import APNSSimulator
import APNSTesting
import Foundation
import HTTP2Wire
import Logging
import NIOCore
import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool

/// A fault, and how the simulator plays it.
struct NightStory: Sendable, CustomTestStringConvertible {
    /// The heading in Docs/Runbook.md.
    var name: String
    var begin: @Sendable (Night) async -> Void
    var configure: @Sendable (inout APNSClientConfiguration) -> Void = { _ in }
    /// How much simulated time passes while pushes wait for their answers.
    var answersTake = Duration.zero

    var testDescription: String { self.name }

    private static func always(_ effect: FaultEffect) -> @Sendable (Night) async -> Void {
        { $0.simulator.inject(Fault(effect, when: .always)) }
    }

    static let all = [
        NightStory(
            name: "APNs is slow",
            // Long enough that the clock can be moved meanwhile.
            begin: Self.always(.delay(.milliseconds(60))),
            answersTake: .seconds(3)
        ),
        NightStory(name: "503 for ten minutes", begin: Self.always(.answer(.serviceUnavailable))),
        NightStory(
            name: "Connections fall silent",
            begin: Self.always(.silence),
            configure: {
                // The network's own times are not simulated: without these an hour of silence takes an hour.
                $0.timeouts.answer = .milliseconds(400)
                $0.silence = .init(streams: 8, warning: .milliseconds(150), end: .milliseconds(250))
            }
        ),
        NightStory(
            name: "All device tokens are of the other environment",
            begin: Self.always(.answer(.badDeviceToken))
        ),
        NightStory(name: "The key is of the other environment", begin: Self.always(.answer(.badEnvironmentKeyInToken))),
        NightStory(name: "The key was revoked", begin: Self.always(.answer(.invalidProviderToken))),
        NightStory(
            name: "This machine's clock is two hours slow",
            begin: { $0.simulator.setClockOffset(seconds: 7_200) }
        ),
        NightStory(
            name: "DNS is gone",
            begin: { night in
                night.isDNSGone.store(true, ordering: .relaxed)
                await night.simulator.dropConnections()
            }
        ),
    ]
}

/// What a story plays on.
final class Night: Sendable {
    let simulator: Simulator
    let isDNSGone: Atomic<Bool>

    init(_ simulator: Simulator) {
        self.simulator = simulator
        self.isDNSGone = Atomic(false)
    }

    /// All is well again.
    func mend() {
        self.simulator.removeFaults()
        self.simulator.setClockOffset(seconds: 0)
        self.isDNSGone.store(false, ordering: .relaxed)
    }
}

/// Plays faults and looks at what those on call are told: health, log, metrics, and the alerts of Docs/Monitoring, which
/// Prometheus' own promtool evaluates over the recorded metrics. What is seen must be what Docs/Runbook.md says, to two
/// minutes; `UPDATE_DOCS=1` writes it there.
///
/// Ten minutes of health, ten of the fault, twenty after it; every half minute 20 pushes, and the metrics are read.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct NightOnCallTests {
    private static let step = Duration.seconds(30)
    private static let part = Duration.seconds(3)
    private static let before = 20
    private static let during = 20
    private static let after = 40

    @Test(arguments: NightStory.all) func aNightOnCall(_ story: NightStory) async throws {
        let clock = ShiftedClock()
        var (logger, lines) = RecordingLog.make()
        logger.logLevel = .notice
        let metrics = PrometheusText()
        let recorder = NightRecorder(metrics, lines, step: Self.step)
        // Made before the client, which asks it for addresses; the simulator comes with it.
        let isDNSGone = DNSSwitch()
        try await withSimulatedAPNS(configure: {
            $0.clock = clock
            $0.logger = logger
            $0.pool = .init(size: 1, maxOverflow: 1, connectSpacing: .zero)
            $0.timeouts.deadline = .seconds(60)
            $0.adjustConnection = { connection in
                connection.lookUp = { host, port in isDNSGone.lookUp(host, port) }
            }
            story.configure(&$0)
        }) { client, simulator in
            let night = Night(simulator)
            isDNSGone.night = night
            // The test exports, not the client's own task, so that each reading is a new one.
            let exporter = try #require(MetricExporter(factory: metrics))
            client.core.observer.queueTimes.turnOn()
            client.core.observer.connectTimes.turnOn()
            client.core.events.answerTimes.turnOn()
            for number in 0..<Self.before + Self.during + Self.after {
                if number == Self.before {
                    recorder.beginFault()
                    await story.begin(night)
                }
                if number == Self.before + Self.during {
                    night.mend()
                    // How long a connection waits for its next try is the network's time, which is not simulated.
                    await Self.wait(.seconds(20)) { await client.status.pool.capacity > 0 }
                }
                let isFault = number >= Self.before && number < Self.before + Self.during
                await self.play(number, client, clock, recorder, isFault ? story.answersTake : .zero)
                await client.core.export(exporter)
                recorder.scrape()
            }
            #expect(await client.health == .serving)
        }
        let seen = try recorder.events()
        #expect(seen.contains { $0.source == .alert }, "nobody is told")
        if ProcessInfo.processInfo.environment["UPDATE_DOCS"] != nil { try Runbook.write(seen, of: story.name) }
        let documented = try Runbook.events(of: story.name)
        for event in seen {
            #expect(documented.contains { $0.fits(event) }, "seen, not in Docs/Runbook.md: \(event)")
        }
        for event in documented {
            #expect(seen.contains { $0.fits(event) }, "in Docs/Runbook.md, not seen: \(event)")
        }
    }

    /// Half a minute.
    private func play(
        _ number: Int,
        _ client: APNSClient,
        _ clock: ShiftedClock,
        _ recorder: NightRecorder,
        _ answersTake: Duration
    ) async {
        for index in 0..<20 {
            let token = DeviceToken.sample(number * 20 + index)
            Task { await client.deliver(samplePush(), to: token) }
        }
        let isDone: @Sendable () async -> Bool = { client.core.lifecycle.pushesInFlight == 0 }
        await Self.wait(.milliseconds(10)) { client.core.lifecycle.pushesInFlight > 0 }
        if answersTake > .zero {
            await Self.wait(.seconds(1)) { await client.status.pool.leased == 20 }
            clock.advance(by: answersTake)
            recorder.pass(answersTake)
        }
        // Well, they are done at once; if not, they wait for the time that passes now.
        await Self.wait(.milliseconds(200), unless: { await client.health != .serving }, isDone)
        var left = Self.step - answersTake
        while left > .zero {
            let part = min(left, Self.part)
            clock.advance(by: part)
            recorder.pass(part)
            left -= part
            if await !isDone() { await Self.wait(.milliseconds(12), isDone) }
            recorder.look(await client.health)
        }
        // Whoever sleeps on the clock looks at it every 10 ms.
        try? await ContinuousClock().sleep(for: .milliseconds(12))
        await Self.wait(.seconds(2), isDone)
        recorder.look(await client.health)
    }

    /// Until something is so, but no longer than a real time.
    private static func wait(
        _ time: Duration,
        unless isHopeless: () async -> Bool = { false },
        _ isMet: () async -> Bool
    ) async {
        let end = ContinuousClock.now.advanced(by: time)
        while await !isMet(), ContinuousClock.now < end, await !isHopeless() {
            try? await ContinuousClock().sleep(for: .milliseconds(1))
        }
    }
}

/// The client's resolver, which a story turns off.
private final class DNSSwitch: Sendable {
    private let state = Mutex<Night?>(nil)

    var night: Night? {
        get { self.state.withLock { $0 } }
        set { self.state.withLock { $0 = newValue } }
    }

    func lookUp(_ host: String, _ port: Int) -> Result<[SocketAddress], WireError> {
        if self.night?.isDNSGone.load(ordering: .relaxed) == true {
            return .failure(
                WireError(.nameResolutionFailed, "the host '\(host)' could not be looked up: no name server answers")
            )
        }
        return Result { try [SocketAddress(ipAddress: "127.0.0.1", port: port)] }
            .mapError { WireError(.nameResolutionFailed, "\($0)") }
    }
}
