internal import APNSTransport
internal import NIOCore
internal import NIOPosix
internal import Synchronization

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// The state that a simulator's connections share, with its lock.
final class SimulatorCore: Sendable {
    let configuration: Simulator.Configuration
    let headerReporting = HeaderReporting()
    let state: Mutex<SimulatorState>
    /// Set once, before the first connection can arrive.
    let listener = Mutex<ListenerKeeper?>(nil)
    private let start = ContinuousClock.now
    private let startMilliseconds = Int64((Date().timeIntervalSince1970 * 1000).rounded())

    init(_ configuration: Simulator.Configuration) {
        self.configuration = configuration
        self.state = Mutex(SimulatorState(configuration))
    }

    var now: SimulatorState.Now {
        let instant = ContinuousClock.now
        return SimulatorState.Now(
            instant: instant,
            uptime: self.start.duration(to: instant),
            seconds: self.configuration.clock(),
            milliseconds: self.milliseconds(of: instant)
        )
    }

    /// Milliseconds since 1970, by the system's clock at the simulator's start.
    func milliseconds(of instant: ContinuousClock.Instant) -> Int64 {
        self.startMilliseconds + Int64((self.start.duration(to: instant) / .milliseconds(1)).rounded())
    }

    // MARK: Faults

    /// Adds faults and schedules the timed ones.
    ///
    /// - Returns: those that can apply.
    @discardableResult
    func inject(_ script: FaultScript) -> [ActiveFault] {
        let uptime = self.now.uptime
        let (added, appointments) = self.update { state in
            let last = state.engine.lastID
            let appointments = state.engine.inject(script, at: uptime)
            if state.engine.hasEarlyFaults { self.headerReporting.isOn = true }
            return (state.engine.active(at: uptime).filter { $0.id > last }, appointments)
        }
        for appointment in appointments { self.schedule(appointment) }
        return added
    }

    private func schedule(_ appointment: FaultEngine.Appointment) {
        let group = self.configuration.eventLoopGroup ?? MultiThreadedEventLoopGroup.singleton
        group.next().scheduleTask(in: TimeAmount(bounded: appointment.after)) { [weak self] in self?.keep(appointment) }
    }

    private func keep(_ appointment: FaultEngine.Appointment) {
        let now = self.now
        let (kept, sessions) = self.state.withLock { state in
            (state.isStopped ? nil : state.engine.keep(appointment, uptime: now.uptime), state.sessions)
        }
        guard let kept else { return }
        if let next = kept.next { self.schedule(next) }
        guard let fault = kept.fault else { return }
        let isForAll = self.update { state in
            let isForAll = state.applyToAll(fault.effect.kind, now: now)
            if isForAll { state.ledger.count(faults: [fault.effect.name]) }
            return isForAll
        }
        if case .listenerDown(let duration) = fault.effect.kind { self.closeListener(for: duration) }
        guard !isForAll else { return }
        for (number, session) in sessions.sorted(by: { $0.key < $1.key })
        where fault.when.connection == nil || fault.when.connection == number {
            session.eventLoop.execute { session.value.apply(fault.effect) }
        }
    }

    func closeListener(for duration: Duration) {
        guard let listener = self.listener.withLock({ $0 }) else { return }
        Task { await listener.close(for: duration) }
    }

    /// Changes the state. Then, after releasing the lock, resumes the waiters whose condition is met.
    func update<Value>(_ body: (inout SimulatorState) -> sending Value) -> sending Value {
        let (value, met) = self.state.withLock { state in
            let value = body(&state)
            return (value, state.satisfiedWaiters())
        }
        for waiter in met { waiter.end(.success(())) }
        return value
    }
}

extension TimeAmount {
    /// At most 30 days, because an event loop's clock can overflow.
    init(bounded duration: Duration) {
        self.init(min(max(duration, .zero), DelayDistribution.longest))
    }
}
