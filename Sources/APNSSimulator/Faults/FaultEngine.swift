internal import APNSBasics

/// Selects the faults that apply to an event. Pure: equal events in equal order with an equal seed yield equal faults.
struct FaultEngine: Sendable {
    /// The faults that apply to an event.
    struct Draw: Sendable {
        var delay = Duration.zero
        /// Effects in addition to the response, in the script's order.
        var beside: [FaultEffect.Kind] = []
        /// The effect that decides the result of the request or connection; nil if APNs' rules decide it.
        var decisive: FaultEffect.Kind?
        /// The names of all effects that apply.
        var names: [String] = []
    }

    /// The properties of an event that a trigger can check.
    struct Situation: Sendable {
        var event: FaultTrigger.Event
        /// The connection's number.
        var connection: Int
        /// How long the simulator has run.
        var uptime: Duration
    }

    /// The time at which a timed fault is due.
    struct Appointment: Sendable, Hashable {
        let id: Int
        var after: Duration
    }

    /// The result of an appointment.
    struct Kept: Sendable, Hashable {
        /// The fault; nil if it does not apply this time.
        var fault: Fault?
        /// The next appointment, measured from now; nil if there is none.
        var next: Appointment?
    }

    private struct Armed: Sendable {
        let id: Int
        let fault: Fault
        let event: FaultTrigger.Event
        let injectedAt: Duration
        var random: SplitMix64
        var seen = 0
        var applied = 0
        /// The second since the injection in which it last applied. `inSecond` counts how often it applied in that
        /// second.
        var second: Int64 = -1
        var inSecond = 0

        var isSpent: Bool { self.fault.when.times.map { self.applied >= $0 } ?? false }

        /// Whether it can never apply again. Timed faults end with their last appointment.
        func isOver(at uptime: Duration) -> Bool {
            if self.isSpent { return true }
            guard self.event != .time, let until = self.fault.when.until else { return false }
            return uptime - self.injectedAt >= until
        }

        /// Whether it applies to an event that meets all conditions except counts, times and probability. Counts the
        /// event.
        mutating func counts(at uptime: Duration) -> Bool {
            let when = self.fault.when
            let age = uptime - self.injectedAt
            if self.event != .time, age < when.from { return false }
            if let until = when.until, age >= until { return false }
            self.seen += 1
            let position = self.seen - max(when.skip, 0)
            guard position > 0, position.isMultiple(of: max(when.every, 1)) else { return false }
            guard when.probability >= 1 || self.random.unit() < when.probability else { return false }
            if let limit = when.perSecond {
                let second = age.components.seconds
                if second != self.second {
                    self.second = second
                    self.inSecond = 0
                }
                guard self.inSecond < limit else { return false }
                self.inSecond += 1
            }
            self.applied += 1
            return true
        }
    }

    private var armed: [Armed] = []
    private var random: SplitMix64
    /// The id of the last fault that was added.
    private(set) var lastID = 0
    private(set) var hasEarlyFaults = false
    private(set) var hasRequestFaults = false
    private(set) var hasConnectionFaults = false

    init(seed: UInt64) {
        self.random = SplitMix64(seed: seed)
    }

    var isEmpty: Bool { self.armed.isEmpty }

    @discardableResult
    mutating func inject(_ fault: Fault, at uptime: Duration = .zero) -> Appointment? {
        let appointment = self.inject(fault, SplitMix64(seed: self.random.next()), at: uptime)
        self.clean(at: uptime)
        return appointment
    }

    /// - Returns: the appointments of the timed faults.
    @discardableResult
    mutating func inject(_ script: FaultScript, at uptime: Duration = .zero) -> [Appointment] {
        var random = script.seed.map { SplitMix64(seed: $0) } ?? self.random
        var appointments: [Appointment] = []
        for fault in script.faults {
            let own = SplitMix64(seed: random.next())
            if let appointment = self.inject(fault, own, at: uptime) { appointments.append(appointment) }
        }
        if script.seed == nil { self.random = random }
        self.clean(at: uptime)
        return appointments
    }

    /// The faults that can still apply, in their order.
    func active(at uptime: Duration) -> [ActiveFault] {
        self.armed.lazy.filter { !$0.isOver(at: uptime) }.map { armed in
            ActiveFault(id: armed.id, fault: armed.fault, matched: armed.seen, applied: armed.applied)
        }
    }

    /// Removes a fault.
    ///
    /// - Returns: whether there was one with this id.
    mutating func remove(id: Int, at uptime: Duration) -> Bool {
        self.clean(at: uptime)
        guard let index = self.armed.firstIndex(where: { $0.id == id }) else { return false }
        self.armed.remove(at: index)
        self.clean(at: uptime)
        return true
    }

    private mutating func inject(_ fault: Fault, _ random: SplitMix64, at uptime: Duration) -> Appointment? {
        self.lastID += 1
        let armed = Armed(id: self.lastID, fault: fault, event: fault.event, injectedAt: uptime, random: random)
        self.armed.append(armed)
        // Connections have no device token.
        guard armed.event == .time, fault.when.deviceTokens == nil, !armed.isSpent else { return nil }
        return Appointment(id: armed.id, after: max(fault.when.from, .zero))
    }

    mutating func removeAll() {
        self.armed = []
        self.clean(at: .zero)
    }

    /// Returns the faults that apply to an event.
    ///
    /// - Parameter deviceToken: the device token in lower case.
    mutating func draw(_ situation: Situation, deviceToken: () -> String) -> Draw {
        var draw = Draw()
        var someSpent = false
        var token: String?
        for index in self.armed.indices where self.armed[index].event == situation.event {
            let when = self.armed[index].fault.when
            if let only = when.connection, only != situation.connection { continue }
            if let tokens = when.deviceTokens {
                let text = token ?? deviceToken()
                token = text
                guard tokens.contains(text) else { continue }
            }
            // A fault does not count events that an earlier fault has already decided.
            guard draw.decisive == nil, !self.armed[index].isSpent else { continue }
            guard self.armed[index].counts(at: situation.uptime) else { continue }
            if self.armed[index].isSpent { someSpent = true }
            let effect = self.armed[index].fault.effect
            draw.names.append(effect.name)
            if case .delay(let distribution) = effect.kind {
                draw.delay += distribution.draw(using: &self.armed[index].random)
            } else if effect.isBeside {
                draw.beside.append(effect.kind)
            } else {
                draw.decisive = effect.kind
            }
        }
        if someSpent { self.clean(at: situation.uptime) }
        return draw
    }

    /// Handles an appointment that is due.
    ///
    /// - Returns: the fault, if it applies this time, and its next appointment; nil if the fault was removed.
    mutating func keep(
        _ appointment: Appointment,
        uptime: Duration
    ) -> Kept? {
        guard let index = self.armed.firstIndex(where: { $0.id == appointment.id }) else { return nil }
        let fault = self.armed[index].fault
        let applies = self.armed[index].counts(at: uptime)
        let isOver = fault.when.until.map { uptime - self.armed[index].injectedAt >= $0 } ?? false
        let isLast = fault.when.period == nil || isOver || self.armed[index].isSpent
        if isLast { self.armed.remove(at: index) }
        self.clean(at: uptime)
        let next = isLast ? nil : fault.when.period.map { Appointment(id: appointment.id, after: $0) }
        return Kept(fault: applies ? fault : nil, next: next)
    }

    private mutating func clean(at uptime: Duration) {
        self.armed.removeAll { $0.isOver(at: uptime) }
        self.hasEarlyFaults = self.armed.contains { $0.event == .headers }
        self.hasRequestFaults = self.armed.contains { $0.event == .request }
        self.hasConnectionFaults = self.armed.contains { $0.event == .connect || $0.event == .open }
    }
}
