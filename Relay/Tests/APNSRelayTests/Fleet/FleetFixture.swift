import Foundation
import Logging
import PushQueue
import PushQueueConformance
import SQLitePushQueue
import Synchronization

@testable import APNSRelay

/// A queue that several relays of one process share, as relays share one in a database.
final class SharedQueue: WrappingPushQueue {
    let base: any PushQueue
    /// Fails the calls of one relay.
    let disk = FailingDisk()
    /// Called once, after the next `values` and before its result is used.
    func afterReading(_ body: @escaping @Sendable () -> Void) { self.hook.withLock { $0.body = body } }

    private struct Hook {
        var body: (@Sendable () -> Void)?
    }

    private let hook = Mutex(Hook())
    private let isDead = Mutex(false)

    init(_ base: any PushQueue) {
        self.base = base
    }

    var isShared: Bool { true }

    /// Lets every further call fail, as for a process that was killed.
    func kill() { self.isDead.withLock { $0 = true } }

    func call<Value: Sendable>(
        _ name: String,
        _ body: () async throws(QueueError) -> Value
    ) async throws(QueueError) -> Value {
        if self.isDead.withLock({ $0 }) { throw QueueError(code: .closed, message: "the process was killed") }
        try self.disk.check(name)
        let value = try await body()
        if name == "values" { self.hook.withLock { $0.body.take() }?() }
        return value
    }

    func close() async {}
}

/// Relays that share one SQLite queue, with a clock that the test sets.
struct FleetFixture: Sendable {
    let folder: URL
    let base: any PushQueue
    let clock = ManualQueueClock(QueueTime(secondsSince1970: 1_795_440_000))

    static let logger = Logger(label: "fleet") { _ in SwiftLogNoOpLogHandler() }

    static func run(_ body: (FleetFixture) async throws -> Void) async throws {
        let fixture = try await FleetFixture()
        do {
            try await body(fixture)
        } catch {
            await fixture.close()
            throw error
        }
        await fixture.close()
    }

    private init() async throws {
        self.folder = FileManager.default.temporaryDirectory.appendingPathComponent("fleet-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        self.base = try await SQLitePushQueue.open(
            file: self.folder.appendingPathComponent("queue.sqlite").path,
            logger: Self.logger
        )
    }

    private func close() async {
        await self.base.close()
        try? FileManager.default.removeItem(at: self.folder)
    }

    /// One more relay.
    func relay(
        _ id: String,
        queue: SharedQueue? = nil,
        maxConnections: Int? = nil,
        _ apply: @escaping @Sendable (String, FleetEffects) -> Void = { _, _ in }
    ) -> Member {
        Member(id, queue ?? SharedQueue(self.base), self.clock, maxConnections) { apply(id, $0) }
    }

    /// Lets time pass in steps of a second; each relay sends a heartbeat every five seconds.
    func pass(_ seconds: Int, _ relays: Member...) async {
        for _ in 0..<seconds {
            self.clock.advance(by: .seconds(1))
            for relay in relays { await relay.tick() }
        }
    }

    /// A relay without a service: the test calls it.
    final class Member: Sendable {
        let queue: SharedQueue
        let fleet: Fleet
        private let age = Mutex(0)

        init(
            _ id: String,
            _ queue: SharedQueue,
            _ clock: ManualQueueClock,
            _ maxConnections: Int?,
            _ apply: @escaping @Sendable (FleetEffects) -> Void
        ) {
            self.queue = queue
            self.fleet = Fleet(
                member: FleetMember(id: id, host: "host", process: 1, version: "1", since: clock.now),
                queue: queue,
                clock: clock,
                metrics: RelayMetrics(factory: PrometheusMetrics()),
                logger: FleetFixture.logger,
                maxConnections: maxConnections,
                apply: apply
            )
        }

        var members: [String] { self.fleet.members.map(\.id) }
        /// The relay that posts to the webhooks, as this one sees it.
        var poster: String? { self.fleet.members.first(where: \.postsWebhooks)?.id }

        /// A second has passed.
        func tick() async {
            let isDue = self.age.withLock { age in
                age += 1
                return age.isMultiple(of: 5)
            }
            if isDue { await self.fleet.beat() } else { self.fleet.update() }
        }
    }
}
