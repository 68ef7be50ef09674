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
    /// How much simulated time passes while pushes wait for their responses.
    var responsesTake = Duration.zero
    /// Pushes may wait for nothing but time although they are at APNs.
    var isSilent = false
    /// Words of events that come or not, and when, by chance: Docs/Runbook.md tells of them in words.
    var chance: [String] = []

    var testDescription: String { self.name }

    private static func always(_ effect: FaultEffect) -> @Sendable (Night) async -> Void {
        { $0.simulator.inject(Fault(effect, when: .always)) }
    }

    /// All of them in the long form, and when the Runbook is written; else one that is always the same, and a random one.
    static var tonight: [NightStory] {
        if TestScale.isThorough || ProcessInfo.processInfo.environment["UPDATE_DOCS"] != nil { return self.all }
        let usual = "503 for ten minutes"
        let others = self.all.filter { $0.name != usual }
        return self.all.filter { $0.name == usual } + [others.randomElement()].compactMap { $0 }
    }

    static let all = [
        NightStory(
            name: "APNs is slow",
            // Long enough that the clock can be moved meanwhile.
            begin: Self.always(.delay(.milliseconds(400))),
            responsesTake: .seconds(3)
        ),
        NightStory(
            name: "503 for ten minutes",
            begin: Self.always(.respond(.serviceUnavailable)),
            // How long connections are spared is drawn by lot.
            chance: ["APNSQueueSlow", "reason deadlineExceeded"]
        ),
        NightStory(
            name: "Connections fall silent",
            begin: Self.always(.silence),
            isSilent: true,
            // It goes to and fro.
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

/// A story that does not come to its end, and where it stands.
private struct NightTrouble: Error, CustomStringConvertible {
    var description: String
}

/// Plays faults and looks at what those on call are told: health, log, metrics, and the alerts of Docs/Monitoring, which
/// Prometheus' own promtool evaluates over the recorded metrics. What is seen must be what Docs/Runbook.md says, to two
/// minutes; `UPDATE_DOCS=1` writes it there.
///
/// Ten minutes of health, ten of the fault, twenty after it; every half minute 20 pushes, and the metrics are read. The
/// clock moves only while the client waits for nothing but time, so that what the network takes in truth counts as nothing.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct NightOnCallTests {
    fileprivate static let step = Duration.seconds(30)
    private static let before = 20
    private static let during = 20
    private static let after = 40
    /// In truth. An idle machine takes a tenth of it.
    private static let patience = Duration.seconds(45)

    @Test(arguments: NightStory.tonight) func aNightOnCall(_ story: NightStory) async throws {
        let clock = ManualClock()
        var (logger, lines) = RecordingLog.make()
        logger.logLevel = .notice
        let metrics = PrometheusText()
        let recorder = NightRecorder(metrics, lines, step: Self.step)
        // Made before the client, which asks it for addresses; the simulator comes with it.
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
                // The acknowledgement of a PING comes in truth, while the clock may move on.
                connection.pathCheck.acknowledgement = .hours(1)
                connection.pathCheck.check = .hours(1)
            }
            story.configure(&$0)
        }) { client, simulator in
            // What is left waits for time when the client ends.
            defer { pump.start() }
            let night = Night(simulator)
            isDNSGone.night = night
            // The test exports, not the client's own task, so that each reading is a new one.
            let exporter = try #require(MetricExporter(factory: metrics))
            client.runtime.monitor.queueTimes.enable()
            client.runtime.monitor.connectTimes.enable()
            client.runtime.monitor.events.responseTimes.enable()
            let player = NightPlayer(client, clock, recorder, until: .now.advanced(by: Self.patience))
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
            } catch let trouble as NightTrouble {
                throw NightTrouble(description: "'\(story.name)', \(recorder.clockTime): \(trouble)")
            }
            #expect(await client.health == .serving)
        }
        let seen = try recorder.events().filter { event in !story.chance.contains { event.text.contains($0) } }
        #expect(seen.contains { $0.source == .alert }, "nobody is told")
        var documented = try Runbook.events(of: story.name)
        // A table that holds stays as it is.
        let isTold = seen.allSatisfy { event in documented.contains { $0.fits(event) } }
        let isSeen = documented.allSatisfy { event in seen.contains { $0.fits(event) } }
        if ProcessInfo.processInfo.environment["UPDATE_DOCS"] != nil, !isTold || !isSeen {
            try Runbook.write(seen, of: story.name)
            documented = try Runbook.events(of: story.name)
        }
        for event in seen {
            #expect(documented.contains { $0.fits(event) }, "seen, not in Docs/Runbook.md: \(event)")
        }
        for event in documented {
            #expect(seen.contains { $0.fits(event) }, "in Docs/Runbook.md, not seen: \(event)")
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

    /// Half a minute.
    ///
    /// - Parameter isSilent: pushes at APNs may wait for nothing but time.
    func play(_ number: Int, _ responsesTake: Duration, isSilent: Bool) async throws {
        let begun = self.begun.load(ordering: .relaxed)
        for index in 0..<20 {
            let token = DeviceToken.sample(number * 20 + index)
            Task {
                self.begun.add(1, ordering: .relaxed)
                _ = await self.client.deliver(samplePush(), to: token)
            }
        }
        try await self.wait(.seconds(10)) { self.begun.load(ordering: .relaxed) == begun + 20 }
        if responsesTake > .zero {
            // Not all of them go out at once when connections are lost.
            try await self.wait(.milliseconds(100), mayFail: true) {
                await self.client.runtime.pool.status().leased == 20
            }
            self.pass(responsesTake)
        }
        try await self.settle(isSilent: isSilent)
        self.recorder.record(await self.client.health)
        var left = NightOnCallTests.step - responsesTake
        while left > .zero {
            // To the next time at which something happens, but not to each of many in a second.
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

    /// Until the client waits for nothing but time: nothing is on the network, and nothing changes for some looks.
    func settle(isSilent: Bool = false) async throws {
        var last: Stillness?
        var looks = 0
        try await self.wait(.seconds(10)) {
            let pool = await self.client.runtime.pool.status()
            let isConnecting = pool.workers.contains { $0.state == .connecting }
            let isSent = pool.workers.contains { $0.leased + $0.leasedOfEarlierSessions > 0 }
            let now = Stillness(
                inFlight: self.client.runtime.lifecycle.pushesInFlight,
                queued: pool.queueDepth,
                sleepers: self.clock.sleepers,
                next: self.clock.nextWakeUp
            )
            looks = !isConnecting && (!isSent || isSilent) && now == last ? looks + 1 : 0
            last = now
            return looks >= (isSent ? 20 : 3)
        }
    }

    /// Until something is so, but no longer than a time, in truth.
    private func wait(_ time: Duration, mayFail: Bool = false, _ isMet: () async -> Bool) async throws {
        let end = min(ContinuousClock.now.advanced(by: time), self.end)
        while await !isMet() {
            if ContinuousClock.now >= end {
                if mayFail, end < self.end { return }
                let status = await self.client.runtime.pool.status()
                throw NightTrouble(
                    description:
                        "the client does not come to rest: \(self.client.runtime.lifecycle.pushesInFlight) pushes in "
                        + "flight, \(self.clock.sleepers) sleepers, \(status)"
                )
            }
            try await ContinuousClock().sleep(for: .milliseconds(1))
        }
    }
}

/// Lets time pass while a client ends.
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
