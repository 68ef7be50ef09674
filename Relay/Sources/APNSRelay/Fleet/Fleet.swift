import Logging
import PushQueue
import ServiceLifecycle
import Synchronization

/// The fleet's decisions for this relay.
struct FleetEffects: Sendable, Hashable {
    /// The connections of each client; nil for the relay's own setting.
    var poolSize: Int?
    /// The most pushes in flight; nil for the relay's own setting.
    var maxInFlight: Int?
    /// The apps whose pushes stay queued; nil if they are not known yet.
    var pausedApps: Set<String>?
    /// Whether this relay posts to the webhooks.
    var postsWebhooks = false
}

/// This relay's part in the fleet: it stores its heartbeat, and observes those of the others.
///
/// If the storage fails, the last view stays, and the next attempt follows soon.
final class Fleet: Service {
    private struct State {
        var machine: FleetMachine
        /// The members that the log knows.
        var logged: [FleetMember] = []
        /// Whether the last heartbeat failed.
        var isFailing = false
        /// The settings that the queue has.
        var stored: [UInt8]?
        /// Counts the settings that this relay has stored.
        var revision: UInt64 = 0
        /// The settings that apply; nil before the first reading.
        var settings: FleetSettings?
        var share = ConnectionShare()
        /// The values that were applied last.
        var effects: FleetEffects?
    }

    /// The longest wait for the storage at the end.
    private static let leaveTimeout = Duration.seconds(2)
    /// How often this relay looks whether its share of the connections may grow.
    private static let updateInterval = Duration.seconds(1)

    private let queue: any PushQueue
    private let clock: any QueueClock
    private let metrics: RelayMetrics
    private let logger: Logger
    private let timing: FleetMachine.Timing
    private let memberKey: String
    private let maxConnections: Int?
    private let apply: @Sendable (FleetEffects) -> Void
    private let state: Mutex<State>

    /// - Parameters:
    ///   - member: this process.
    ///   - queue: the queue of the fleet.
    ///   - clock: its clock.
    ///   - metrics: counts errors of the storage.
    ///   - logger: receives changes of the members.
    ///   - timing: the same for all relays.
    ///   - maxConnections: the budget of connections, unless the settings of the fleet have one.
    ///   - apply: applies the fleet's decisions for this relay. It must not wait or call the fleet.
    init(
        member: FleetMember,
        queue: any PushQueue,
        clock: any QueueClock,
        metrics: RelayMetrics,
        logger: Logger,
        timing: FleetMachine.Timing = FleetMachine.Timing(),
        maxConnections: Int? = nil,
        apply: @escaping @Sendable (FleetEffects) -> Void = { _ in }
    ) {
        self.queue = queue
        self.clock = clock
        self.metrics = metrics
        self.logger = logger
        self.timing = timing
        self.maxConnections = maxConnections
        self.apply = apply
        self.memberKey = FleetKey.member(member.id)
        self.state = Mutex(State(machine: FleetMachine(member: member, isShared: queue.isShared, timing: timing)))
    }

    // MARK: Life

    /// Takes part in the fleet until a graceful shutdown reaches this service, or the task is cancelled. It then leaves the
    /// fleet, so that the others need not wait until it counts as gone.
    func run() async {
        await cancelWhenGracefulShutdown {
            await withDiscardingTaskGroup { group in
                group.addTask { await self.sendHeartbeats() }
                group.addTask { await self.updateRegularly() }
            }
        }
        let wakeup = Wakeup()
        // Not a child: this does not wait longer for a storage that is away.
        Task {
            await self.leave()
            wakeup.signal()
        }
        let timer = Task {
            try await Task.sleep(for: Self.leaveTimeout)
            wakeup.signal()
        }
        await wakeup.wait()
        timer.cancel()
    }

    private func sendHeartbeats() async {
        while !Task.isCancelled {
            let start = ContinuousClock.now
            let isStored = await self.beat()
            let pause = isStored ? self.timing.heartbeat : self.timing.heartbeat / 5
            try? await Task.sleep(until: start.advanced(by: pause), clock: .continuous)
        }
    }

    private func updateRegularly() async {
        while (try? await Task.sleep(for: Self.updateInterval)) != nil { self.update() }
    }

    /// Stores a heartbeat, reads those of the others, and removes those of relays that are gone.
    ///
    /// - Returns: whether the storage worked.
    @discardableResult
    func beat() async -> Bool {
        defer { self.update() }
        do throws(QueueError) {
            if self.queue.isShared {
                let heartbeat = self.state.withLock { $0.machine.nextHeartbeat() }
                try await self.queue.setValue(heartbeat, forKey: self.memberKey)
            }
            let revision = self.state.withLock { $0.revision }
            let values = try await self.queue.values(withPrefix: FleetKey.all)
            let removals = self.state.withLock { state in
                // Otherwise this relay has stored new settings in the meantime.
                if state.revision == revision { self.adopt(values[FleetKey.settings], &state) }
                return state.machine.didRead(values, at: self.clock.lease)
            }
            for (key, value) in removals {
                _ = try await self.queue.exchangeValue(nil, forKey: key, expecting: value)
            }
            if self.state.withLock({ $0.isFailing }) { self.logger.notice("The fleet's values can be stored again") }
            self.state.withLock { $0.isFailing = false }
            return true
        } catch {
            self.metrics.storageFailed(error)
            let isNew = self.state.withLock { state in
                defer { state.isFailing = true }
                return !state.isFailing
            }
            if isNew {
                self.logger.warning(
                    "The fleet's values cannot be stored or read; trying again",
                    metadata: ["error": "\(error)"]
                )
            }
            return false
        }
    }

    /// Removes the heartbeat. Errors are ignored: the others then wait until it counts as gone.
    func leave() async {
        self.state.withLock { $0.machine.leave() }
        self.update()
        guard self.queue.isShared else { return }
        try? await self.queue.setValue(nil, forKey: self.memberKey)
    }

    // MARK: View

    /// The members, this relay first.
    var members: [FleetMember] { self.state.withLock { $0.machine.members } }

    /// Passes changes on to everything that depends on the time or on the members.
    func update() {
        self.state.withLock { state in
            let now = self.clock.lease
            self.logMembers(&state)
            state.share.update(
                budget: state.settings?.maxConnections ?? self.maxConnections,
                members: state.machine.memberCount,
                isStable: state.machine.isStable(at: now)
            )
            let effects = FleetEffects(
                poolSize: state.share.size,
                maxInFlight: state.settings?.maxInFlight,
                pausedApps: state.settings?.pausedApps,
                postsWebhooks: state.machine.postsWebhooks
            )
            guard effects != state.effects else { return }
            if state.machine.isShared, effects.postsWebhooks != state.effects?.postsWebhooks ?? false {
                self.logger.notice(
                    effects.postsWebhooks
                        ? "This relay posts to the webhooks from now on"
                        : "This relay no longer posts to the webhooks"
                )
            }
            state.effects = effects
            // Within the lock, so that the last one is applied last.
            self.apply(effects)
        }
    }

    // MARK: Settings

    /// Applies settings that this relay has stored for the fleet, at once.
    func didStore(_ settings: [UInt8]) {
        self.state.withLock { state in
            state.revision &+= 1
            self.adopt(settings, &state)
        }
        self.update()
    }

    private func adopt(_ stored: [UInt8]?, _ state: inout State) {
        guard state.settings == nil || stored != state.stored else { return }
        state.stored = stored
        do throws(FleetSettings.Fault) {
            state.settings =
                try stored.map { (bytes) throws(FleetSettings.Fault) in try FleetSettings(json: bytes) }
                ?? FleetSettings()
            if let stored {
                let text = String(decoding: stored, as: UTF8.self)
                self.logger.notice("New settings of the fleet apply", metadata: ["settings": "\(text)"])
            }
        } catch {
            state.settings = state.settings ?? FleetSettings()
            self.logger.error(
                "The stored settings of the fleet cannot be read, perhaps because a newer version wrote them; ignoring them",
                metadata: ["error": "\(error.member ?? "settings"): \(error.message)"]
            )
        }
    }

    private func logMembers(_ state: inout State) {
        let others = Array(state.machine.members.dropFirst())
        let ids = Set(others.map(\.id))
        let known = Set(state.logged.map(\.id))
        guard ids != known else { return }
        for member in others where !known.contains(member.id) {
            self.logger.notice(
                "Another relay is in the fleet",
                metadata: ["relay": "\(member.id)", "host": "\(member.host)"]
            )
        }
        for member in state.logged where !ids.contains(member.id) {
            self.logger.notice(
                "A relay has left the fleet",
                metadata: ["relay": "\(member.id)", "host": "\(member.host)"]
            )
        }
        state.logged = others
    }
}
