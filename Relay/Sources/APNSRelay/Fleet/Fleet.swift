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
}

/// This relay's part in the fleet: it stores its heartbeat, observes those of the others, and performs its duties.
///
/// If the storage fails, the last view stays, and the next attempt follows soon. A relay that cannot store its heartbeat
/// counts as gone for the others, so it gives up its duties in time.
final class Fleet: Service {
    private struct Performance: Sendable {
        var isHeld = false
        var changes: AsyncStream<Bool>.Continuation
    }

    private struct State {
        var machine: FleetMachine
        var performances: [FleetDuty: Performance] = [:]
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
    /// The interval between checks of the duties.
    private static let checkInterval = Duration.seconds(1)

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
    ///   - logger: receives changes of the members and of the duties.
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
    /// fleet, so that other relays take over its duties at once.
    func run() async {
        await cancelWhenGracefulShutdown {
            await withDiscardingTaskGroup { group in
                group.addTask { await self.sendHeartbeats() }
                group.addTask { await self.checkDuties() }
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

    /// Gives up duties on time, also while a call of the storage hangs.
    private func checkDuties() async {
        while !Task.isCancelled {
            let now = self.clock.lease
            let end = self.state.withLock { $0.machine.nextEnd(after: now) }
            let pause = end.map { min(now.duration(to: $0), Self.checkInterval) } ?? Self.checkInterval
            try? await Task.sleep(for: max(pause, .milliseconds(1)))
            self.update()
        }
    }

    /// Stores a heartbeat, reads those of the others, and takes and renews duties.
    ///
    /// - Returns: whether the storage worked.
    @discardableResult
    func beat() async -> Bool {
        defer { self.update() }
        do throws(QueueError) {
            if self.queue.isShared {
                let start = self.clock.lease
                let heartbeat = self.state.withLock { $0.machine.nextHeartbeat() }
                try await self.queue.setValue(heartbeat, forKey: self.memberKey)
                self.state.withLock { $0.machine.didStoreHeartbeat(at: start) }
            }
            let revision = self.state.withLock { $0.revision }
            let values = try await self.queue.values(withPrefix: FleetKey.all)
            let exchanges = self.state.withLock { state in
                // Otherwise this relay has stored new settings in the meantime.
                if state.revision == revision { self.adopt(values[FleetKey.settings], &state) }
                return state.machine.didRead(values, at: self.clock.lease)
            }
            try await self.perform(exchanges)
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

    private func perform(_ exchanges: [FleetMachine.Exchange]) async throws(QueueError) {
        for exchange in exchanges {
            let start = self.clock.lease
            let isDone = try await self.queue.exchangeValue(
                exchange.value,
                forKey: exchange.key,
                expecting: exchange.expected
            )
            self.state.withLock { $0.machine.didExchange(exchange, isDone: isDone, at: start) }
        }
    }

    /// Gives up the duties and removes the heartbeat. Errors are ignored: the others then wait until it counts as gone.
    func leave() async {
        let exchanges = self.state.withLock { $0.machine.leave() }
        self.update()
        guard self.queue.isShared else { return }
        try? await self.perform(exchanges)
        try? await self.queue.setValue(nil, forKey: self.memberKey)
    }

    // MARK: View

    /// The members, this relay first.
    var members: [FleetMember] {
        let now = self.clock.lease
        return self.state.withLock { $0.machine.members(at: now) }
    }

    /// The id of this relay.
    var id: String { self.state.withLock { $0.machine.member.id } }

    /// The duties that this relay can do, and whether it has them now.
    var duties: [FleetDuty: Bool] {
        let now = self.clock.lease
        return self.state.withLock { state in
            let machine = state.machine
            return Dictionary(uniqueKeysWithValues: machine.wanted.map { ($0, machine.holds($0, at: now)) })
        }
    }

    /// Passes changes on to everything that depends on the time or on the members.
    func update() {
        self.state.withLock { state in
            let now = self.clock.lease
            for (duty, performance) in state.performances {
                let isHeld = state.machine.holds(duty, at: now)
                guard isHeld != performance.isHeld else { continue }
                state.performances[duty]?.isHeld = isHeld
                performance.changes.yield(isHeld)
                if state.machine.isShared {
                    self.logger.notice(
                        isHeld
                            ? "This relay has taken a duty of the fleet"
                            : "This relay has given up a duty of the fleet",
                        metadata: ["duty": "\(duty.rawValue)"]
                    )
                }
            }
            self.logMembers(&state, now)
            state.share.update(
                budget: state.settings?.maxConnections ?? self.maxConnections,
                members: state.machine.memberCount,
                isStable: state.machine.isStable(at: now)
            )
            let effects = FleetEffects(
                poolSize: state.share.size,
                maxInFlight: state.settings?.maxInFlight,
                pausedApps: state.settings?.pausedApps
            )
            guard effects != state.effects else { return }
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

    private func logMembers(_ state: inout State, _ now: QueueTime) {
        let others = Array(state.machine.members(at: now).dropFirst())
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

    // MARK: Duties

    /// Runs a body whenever this relay has a duty, and cancels it when the duty is lost.
    ///
    /// A body that returns earlier runs again when the relay takes the duty the next time.
    ///
    /// The relay takes part in the duty only during this call. Returns when the task is cancelled, after the body has
    /// returned. Only one call for a duty may be under way; a second one returns at once.
    ///
    /// - Parameters:
    ///   - duty: the duty. Another relay may have it already when the body notices its cancellation.
    ///   - body: must return soon after it is cancelled.
    func perform(_ duty: FleetDuty, _ body: @escaping @Sendable () async -> Void) async {
        let (changes, continuation) = AsyncStream.makeStream(of: Bool.self)
        let isFirst = self.state.withLock { state in
            guard state.performances[duty] == nil else { return false }
            state.performances[duty] = Performance(changes: continuation)
            state.machine.want(duty)
            return true
        }
        guard isFirst else { return }
        self.update()
        var running: Task<Void, Never>?
        for await isHeld in changes {
            running?.cancel()
            await running?.value
            running = isHeld ? Task { await body() } : nil
        }
        running?.cancel()
        await running?.value
        self.state.withLock { state in
            state.performances[duty] = nil
            state.machine.stopWanting(duty)
        }
    }
}
