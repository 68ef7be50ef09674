import APNSSimulator
import APNSTesting
import Foundation
import APNSTransport
import Logging
import NIOCore
import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// A fault, and how the simulator causes it.
struct NightStory: Sendable, CustomTestStringConvertible {
    /// The heading in Tests/Reference/nights-on-call.txt.
    var name: String
    var begin: @Sendable (Night) async -> Void
    var configure: @Sendable (inout APNSClientConfiguration) -> Void = { _ in }
    /// The simulated time that passes while pushes wait for their responses.
    var responsesTake = Duration.zero
    /// Whether pushes at APNs may wait for the clock alone.
    var isSilent = false
    /// Words of events that occur by chance or at random times. The record leaves them out.
    var chance: [String] = []

    var testDescription: String { self.name }

    private static func always(_ effect: FaultEffect) -> @Sendable (Night) async -> Void {
        { $0.simulator.inject(Fault(effect, when: .always)) }
    }

    /// All stories in a thorough run or to update the Runbook; else one fixed story and a random one.
    static var tonight: [NightStory] {
        if TestScale.isThorough || ProcessInfo.processInfo.environment["UPDATE_DOCS"] != nil { return self.all }
        let usual = "503 for ten minutes"
        let others = self.all.filter { $0.name != usual }
        return self.all.filter { $0.name == usual } + [others.randomElement()].compactMap { $0 }
    }

    static let all = [
        NightStory(
            name: "APNs is slow",
            // Long enough to move the clock in the meantime.
            begin: Self.always(.delay(.milliseconds(400))),
            responsesTake: .seconds(3)
        ),
        NightStory(
            name: "503 for ten minutes",
            begin: Self.always(.respond(.serviceUnavailable)),
            // The length of the pause for connections is random.
            chance: ["APNSQueueSlow", "reason deadlineExceeded"]
        ),
        NightStory(
            name: "Connections fall silent",
            begin: Self.always(.silence),
            isSilent: true,
            // The health alternates.
            chance: [
                "serving", "unreachable", "no connection to APNs", "APNs can be reached", "reason unavailable",
                "APNSQueueSlow", "APNSResendsMany", "APNSConnectionsLost", "not-sent pushes",
            ]
        ),
        NightStory(
            name: "All device tokens are of the other environment",
            begin: Self.always(.respond(.badDeviceToken))
        ),
        NightStory(
            name: "The key is of the other environment",
            begin: Self.always(.respond(.badEnvironmentKeyInToken))
        ),
        NightStory(name: "The key was revoked", begin: Self.always(.respond(.invalidProviderToken))),
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

/// The set-up of a story.
final class Night: Sendable {
    let simulator: Simulator
    let isDNSGone: Atomic<Bool>

    init(_ simulator: Simulator) {
        self.simulator = simulator
        self.isDNSGone = Atomic(false)
    }

    /// Ends the fault.
    func mend() {
        self.simulator.removeFaults()
        self.simulator.setClockOffset(seconds: 0)
        self.isDNSGone.store(false, ordering: .relaxed)
    }
}

/// A story did not end; the description shows its state.
private struct NightFailure: Error, CustomStringConvertible {
    var description: String
}

/// Causes faults and records the signals for the people on call: health, log, metrics, and the alerts of
/// Docs/Monitoring, which Prometheus' own promtool evaluates over the recorded metrics. The signals must equal those in
/// Tests/Reference/nights-on-call.txt, within two minutes; `UPDATE_DOCS=1` writes them there.
///
/// Each run has ten minutes without a fault, ten with it and twenty after it. Every half minute sends 20 pushes and
/// reads the metrics. The clock moves only while the client waits for the clock alone, so that the real time of the
/// network does not count.
@Suite(.serialized, .timeLimit(.minutes(10)))
struct NightOnCallTests {
    fileprivate static let step = Duration.seconds(30)
    private static let before = 20
    private static let during = 20
    private static let after = 40

    @Test(arguments: NightStory.tonight) func faultsRaiseTheDocumentedSignals(_ story: NightStory) async throws {
        let clock = ManualClock()
        var (logger, lines) = RecordingLog.make()
        logger.logLevel = .notice
        let metrics = PrometheusText()
        let recorder = NightRecorder(metrics, lines, step: Self.step)
        // Created before the client, which resolves its host with it. The simulator starts together with the client.
        let isDNSGone = DNSSwitch()
        let pump = ClockPump(clock)
        defer { pump.stop() }
        try await withSimulatedAPNS(configure: {
            $0.clock = clock
            $0.connectionSeed = 0
            $0.logger = logger
            $0.pool = .init(size: 1, maxOverflow: 1, connectSpacing: .zero)
            $0.timeouts.deadline = .seconds(60)
            $0.adjustConnection = { connection in
                connection.nameResolver = NameResolver { host, port in isDNSGone.lookUp(host, port) }
                // A PING is acknowledged in real time, while the clock may move on. Only a PING finds a silent connection
                // on which few pushes are tried.
                guard !story.isSilent else { return }
                connection.pathCheck.acknowledgement = .hours(1)
                connection.pathCheck.check = .hours(1)
            }
            story.configure(&$0)
        }) { client, simulator in
            // The remaining work waits for the clock while the client shuts down.
            defer { pump.start() }
            let night = Night(simulator)
            isDNSGone.night = night
            // The test exports the metrics instead of the client's own task, so that each reading is current.
            let exporter = try #require(MetricExporter(factory: metrics))
            client.runtime.monitor.queueTimes.enable()
            client.runtime.monitor.connectTimes.enable()
            client.runtime.monitor.events.responseTimes.enable()
            let player = NightPlayer(client, clock, recorder, until: .now.advanced(by: Patience.limit))
            do {
                try await player.settle()
                await client.runtime.export(exporter)
                recorder.scrape()
                for number in 0..<Self.before + Self.during + Self.after {
                    if number == Self.before {
                        recorder.beginFault()
                        await story.begin(night)
                    }
                    if number == Self.before + Self.during { night.mend() }
                    let isFault = number >= Self.before && number < Self.before + Self.during
                    try await player.play(
                        number,
                        isFault ? story.responsesTake : .zero,
                        isSilent: story.isSilent && number >= Self.before
                    )
                    await client.runtime.export(exporter)
                    recorder.scrape()
                }
            } catch let failure as NightFailure {
                throw NightFailure(description: "'\(story.name)', \(recorder.clockTime): \(failure)")
            }
            #expect(await client.health == .serving)
        }
        let seen = try recorder.events().filter { event in !story.chance.contains { event.text.contains($0) } }
        #expect(seen.contains { $0.source == .alert }, "no alert fired")
        var documented = try Runbook.events(of: story.name)
        // A correct table is not rewritten.
        let isDocumented = seen.allSatisfy { event in documented.contains { $0.fits(event) } }
        let isSeen = documented.allSatisfy { event in seen.contains { $0.fits(event) } }
        if ProcessInfo.processInfo.environment["UPDATE_DOCS"] != nil, !isDocumented || !isSeen {
            try Runbook.write(seen, of: story.name)
            documented = try Runbook.events(of: story.name)
        }
        for event in seen {
            #expect(documented.contains { $0.fits(event) }, "the record lacks this signal: \(event)")
        }
        for event in documented {
            #expect(seen.contains { $0.fits(event) }, "a recorded signal did not occur: \(event)")
        }
    }
}

/// Sends pushes and moves the clock.
private final class NightPlayer: Sendable {
    private let client: APNSClient
    private let clock: ManualClock
    private let recorder: NightRecorder
    private let end: ContinuousClock.Instant
    private let begun = Atomic(0)

    init(_ client: APNSClient, _ clock: ManualClock, _ recorder: NightRecorder, until end: ContinuousClock.Instant) {
        self.client = client
        self.clock = clock
        self.recorder = recorder
        self.end = end
    }

    /// Sends the pushes of half a minute and lets it pass.
    ///
    /// - Parameter isSilent: Whether pushes at APNs may wait for the clock alone.
    func play(_ number: Int, _ responsesTake: Duration, isSilent: Bool) async throws {
        let begun = self.begun.load(ordering: .relaxed)
        for index in 0..<20 {
            let token = DeviceToken.sample(number * 20 + index)
            Task {
                self.begun.add(1, ordering: .relaxed)
                _ = await self.client.deliver(samplePush(), to: token)
            }
        }
        try await self.wait(Patience.limit) { self.begun.load(ordering: .relaxed) == begun + 20 }
        if responsesTake > .zero {
            // If connections are lost, not all pushes are sent at once.
            try await self.wait(.milliseconds(100), mayFail: true) {
                await self.client.runtime.pool.status().leased == 20
            }
            self.pass(responsesTake)
        }
        try await self.settle(isSilent: isSilent)
        self.recorder.record(await self.client.health)
        var left = NightOnCallTests.step - responsesTake
        while left > .zero {
            // Moves to the next wake-up, but at least by a second, or by five if no push is in flight.
            let isBusy = self.client.runtime.lifecycle.pushesInFlight > 0
            let next = self.clock.nextWakeUp.map { self.clock.now.duration(to: $0) } ?? left
            let part = min(left, max(next, isBusy ? .seconds(1) : .seconds(5)))
            self.pass(part)
            left -= part
            try await self.settle(isSilent: isSilent)
            self.recorder.record(await self.client.health)
        }
    }

    private func pass(_ time: Duration) {
        self.recorder.pass(time)
        self.clock.advance(by: time)
    }

    private struct Stillness: Equatable {
        var inFlight: Int
        var queued: Int
        var sleepers: Int
        var next: MonotonicInstant?
    }

    /// Waits until the client waits for the clock alone: the network is idle, and several checks in a row see no
    /// change.
    func settle(isSilent: Bool = false) async throws {
        var last: Stillness?
        var checks = 0
        try await self.wait(Patience.limit) {
            let pool = await self.client.runtime.pool.status()
            let isConnecting = pool.workers.contains { $0.state == .connecting }
            let isSent = pool.workers.contains { $0.leased + $0.leasedOfEarlierConnections > 0 }
            let now = Stillness(
                inFlight: self.client.runtime.lifecycle.pushesInFlight,
                queued: pool.queueDepth,
                sleepers: self.clock.sleepers,
                next: self.clock.nextWakeUp
            )
            checks = !isConnecting && (!isSent || isSilent) && now == last ? checks + 1 : 0
            last = now
            return checks >= (isSent ? 20 : 3)
        }
    }

    /// Waits until a condition is true, at most for a real time.
    private func wait(_ time: Duration, mayFail: Bool = false, _ isMet: () async -> Bool) async throws {
        let end = min(ContinuousClock.now.advanced(by: time), self.end)
        while await !isMet() {
            if ContinuousClock.now >= end {
                if mayFail, end < self.end { return }
                let status = await self.client.runtime.pool.status()
                throw NightFailure(
                    description:
                        "the client does not come to rest: \(self.client.runtime.lifecycle.pushesInFlight) pushes in "
                        + "flight, \(self.clock.sleepers) sleepers, \(status)"
                )
            }
            try await ContinuousClock().sleep(for: .milliseconds(1))
        }
    }
}

/// Moves the clock while a client shuts down.
private final class ClockPump: Sendable {
    private let clock: ManualClock
    private let task = Mutex<Task<Void, Never>?>(nil)

    init(_ clock: ManualClock) { self.clock = clock }

    func start() {
        let task = Task { [clock] in
            while !Task.isCancelled {
                clock.advance(by: .milliseconds(100))
                try? await ContinuousClock().sleep(for: .milliseconds(1))
            }
        }
        self.task.withLock { $0 = task }
    }

    func stop() { self.task.withLock { $0?.cancel() } }
}

/// The client's resolver, which a story can switch off.
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
