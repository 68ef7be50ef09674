// This folder: keys, certificates and provider tokens; which credential is in use, how another one replaces it, and
// when APNs refuses one. Each credential has its own pool and connections, which are in Connection.

import Synchronization

/// The client's credentials: the current one, and one on trial at the most. What is decided, `CredentialSwitch` decides.
final class CredentialKeeper: Sendable {
    /// What the client's run has to do for them.
    enum Job: Sendable {
        case run(CredentialScope)
        /// Let what is in flight finish, then end its tree.
        case retire(CredentialScope)
    }

    private struct State {
        var machine: CredentialSwitch
        var scopes: [CredentialSwitch.Number: CredentialScope]
        /// The current one, or the last one that was; for those who look.
        var latest: CredentialScope
        var lastNumber = 0
        var hasStarted = false
        var isOver = false
    }

    private let state: Mutex<State>
    let jobs: AsyncStream<Job>
    private let job: AsyncStream<Job>.Continuation

    init(_ first: CredentialScope) {
        first.adopted.open()
        self.state = Mutex(
            State(
                machine: CredentialSwitch(first.number),
                scopes: [first.number: first],
                latest: first,
                lastNumber: first.number
            )
        )
        (self.jobs, self.job) = AsyncStream.makeStream()
    }

    /// The current one; after a revocation the last one.
    var latest: CredentialScope { self.state.withLock { $0.latest } }

    /// For what is no push, and tries no new credential; nil after a revocation.
    var withoutTrial: PushCredential? {
        self.state.withLock { state in
            state.machine.current == nil ? nil : PushCredential(scope: state.latest, token: nil, claim: nil)
        }
    }

    var isRevoked: Bool { self.state.withLock { $0.machine.current == nil } }

    /// The one that is being tried.
    var onTrial: CredentialScope? {
        self.state.withLock { state in state.machine.trial.flatMap { state.scopes[$0.number] } }
    }

    /// Whether the next push tries it.
    func isArmed(_ scope: CredentialScope) -> Bool {
        self.state.withLock { $0.machine.trial == .init(number: scope.number, phase: .armed) }
    }

    /// All that have a tree.
    var all: [CredentialScope] { self.state.withLock { Array($0.scopes.values) } }

    func nextNumber() -> CredentialSwitch.Number {
        self.state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
    }

    // MARK: Pushes

    /// What the next push goes with, its token aside; nil when there is nothing.
    func route() -> PushCredential? {
        let (scope, isTrial) = self.state.withLock { state -> (CredentialScope?, Bool) in
            switch state.machine.route() {
            case .current: (state.latest, false)
            case .trial(let number): (state.scopes[number], true)
            case .revoked: (nil, false)
            }
        }
        guard let scope else { return nil }
        return PushCredential(scope: scope, claim: isTrial ? TrialClaim(scope, self) : nil)
    }

    func claimEnded(_ scope: CredentialScope) {
        if self.state.withLock({ $0.machine.claimEnded(scope.number) }) { scope.trial.tell(.inconclusive) }
    }

    // MARK: Trials

    /// - Returns: false when the client has ended, or there is no credential that could go on meanwhile.
    func begin(_ scope: CredentialScope) -> Bool {
        let (hasBegun, superseded) = self.state.withLock { state -> (Bool, CredentialScope?) in
            guard !state.isOver, state.hasStarted, state.machine.current != nil else { return (false, nil) }
            state.scopes[scope.number] = scope
            // Inside the lock: once the keeper has finished, a job would be lost, and with it the scope's end.
            self.job.yield(.run(scope))
            return (true, state.machine.begin(scope.number).flatMap { state.scopes[$0] })
        }
        guard hasBegun else { return false }
        if let superseded { self.close(superseded, because: .superseded) }
        return true
    }

    func arm(_ scope: CredentialScope) -> Bool {
        self.state.withLock { $0.machine.arm(scope.number) }
    }

    /// APNs accepted a push of the one on trial.
    func accepted(_ scope: CredentialScope) {
        let (isAdopted, retired) = self.state.withLock { state -> (Bool, CredentialScope?) in
            let (isAdopted, retired) = state.machine.accepted(scope.number)
            if isAdopted { state.latest = scope }
            return (isAdopted, retired.flatMap { state.scopes[$0] })
        }
        guard isAdopted else { return }
        scope.adopted.open()
        scope.trial.tell(.accepted)
        if let retired { self.job.yield(.retire(retired)) }
    }

    /// What its connections found out of the one on trial. Called on their loops.
    func judged(_ number: CredentialSwitch.Number, _ event: CredentialStateMachine.Event) {
        guard let scope = self.state.withLock({ $0.scopes[number] }) else { return }
        switch event {
        case .proven: self.accepted(scope)
        case .refusedOnTrial(let refusal): self.giveUp(scope, because: .refused("\(refusal)"))
        case .declared, .ended: break
        }
    }

    /// APNs refused the one on trial, or nobody wants to know any more.
    ///
    /// - Returns: whether it was on trial until now.
    @discardableResult
    func giveUp(_ scope: CredentialScope, because event: TrialEvents.Event = .superseded) -> Bool {
        guard self.state.withLock({ $0.machine.giveUp(scope.number) }) else { return false }
        self.close(scope, because: event)
        return true
    }

    private func close(_ scope: CredentialScope, because event: TrialEvents.Event) {
        scope.retire()
        scope.trial.tell(event)
        // Its one push may still have to hear that it was not sent.
        self.job.yield(.retire(scope))
    }

    // MARK: Without a trial

    /// Makes it the current one. False: the client has ended.
    func install(_ scope: CredentialScope) -> Bool {
        let retired = self.state.withLock { state -> [CredentialScope]? in
            guard !state.isOver else { return nil }
            let retired = state.machine.install(scope.number).compactMap { state.scopes[$0] }
            state.scopes[scope.number] = scope
            state.latest = scope
            guard state.hasStarted else {
                // They never ran.
                for scope in retired { state.scopes[scope.number] = nil }
                return []
            }
            self.job.yield(.run(scope))
            return retired
        }
        guard let retired else { return false }
        scope.adopted.open()
        for scope in retired { self.close(scope, because: .superseded) }
        return true
    }

    /// - Returns: those that have trees, which are to be stopped at once.
    func revoke() -> [CredentialScope] {
        let (revoked, haveTrees) = self.state.withLock { state in
            (state.machine.revoke().compactMap { state.scopes[$0] }, state.hasStarted)
        }
        for scope in revoked {
            scope.retire()
            scope.trial.tell(.superseded)
        }
        return haveTrees ? revoked : []
    }

    // MARK: The client's life

    /// The client runs: trees may be run from now on.
    func start() {
        self.state.withLock { state in
            state.hasStarted = true
            if state.machine.current != nil { self.job.yield(.run(state.latest)) }
        }
    }

    /// A tree is gone.
    func forget(_ scope: CredentialScope) {
        self.state.withLock { $0.scopes[scope.number] = nil }
    }

    /// No further trees; those that are there are to be stopped by the caller.
    func finish() {
        let trial = self.state.withLock { state in
            state.isOver = true
            return state.machine.trial.flatMap { state.scopes[$0.number] }
        }
        trial?.trial.tell(.superseded)
        self.job.finish()
    }
}
