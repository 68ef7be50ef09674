// This folder handles keys, certificates and provider tokens: which credential is active, how another one replaces it,
// and how a refusal by APNs is handled. Each credential has its own pool and connections. The folder Connection
// contains the code of the connections.

import APNSBasics
import Logging
import Synchronization

/// The client's credentials: the current one, at most one candidate to replace it, and replaced ones that still drain.
///
/// `CredentialRotation` decides; this class carries out its decisions.
final class CredentialManager: Sendable {
    /// A job for the client's run loop.
    enum Job: Sendable {
        case run(CredentialSession)
        /// Let streams in flight finish, then end the session's tree.
        case retire(CredentialSession)
    }

    private struct State {
        var machine: CredentialRotation<CredentialSession>
        /// All sessions whose trees have not ended.
        var sessions: [CredentialSession]
        var lastNumber = 1
        var hasStarted = false
        var isOver = false
    }

    let configuration: APNSClientConfiguration
    private let live: LiveSettings
    private let factory: CredentialSessionFactory
    private let version: SendRouteVersion
    private let state: Mutex<State>
    let jobs: AsyncStream<Job>
    private let job: AsyncStream<Job>.Continuation

    /// - Throws: The reason why the configuration's authentication cannot be used.
    init(
        _ factory: CredentialSessionFactory,
        live: LiveSettings,
        version: SendRouteVersion
    ) throws(APNSConfigurationError) {
        let configuration = factory.configuration
        let resolved = try configuration.authentication.resolve(wallNow: configuration.wallClock())
        let first = try factory.make(1, resolved, configuration)
        first.adopted.open()
        self.configuration = configuration
        self.live = live
        self.factory = factory
        self.version = version
        self.state = Mutex(State(machine: CredentialRotation(first), sessions: [first]))
        (self.jobs, self.job) = AsyncStream.makeStream()
    }

    /// Changes the state that determines routes, and invalidates existing routes.
    private func change<Result>(_ body: (inout State) -> Result) -> Result {
        defer { self.version.advance() }
        return self.state.withLock { body(&$0) }
    }

    /// The current session; after a revocation, the last one.
    var latest: CredentialSession { self.state.withLock { $0.machine.latest } }

    var isRevoked: Bool { self.state.withLock { $0.machine.isRevoked } }

    /// The session that pushes use; nil after a revocation.
    var current: CredentialSession? { self.state.withLock { $0.machine.current } }

    /// The session of the candidate to replace the current one.
    var candidate: CredentialSession? { self.state.withLock { $0.machine.candidate } }

    /// All sessions known to the manager. `forget` removes a session when its tree has ended.
    var all: [CredentialSession] { self.state.withLock { $0.sessions } }

    /// Creates a session for another credential.
    func makeSession(_ resolved: ResolvedAuthentication) throws(APNSConfigurationError) -> CredentialSession {
        let number = self.state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        return try self.factory.make(number, resolved, self.live.settings.applied(to: self.configuration))
    }

    // MARK: Rotation

    /// Whether a candidate has begun.
    enum Beginning {
        case begun
        /// Another candidate is being probed, and may not be superseded.
        case busy
        /// The client has ended, or no current credential carries pushes meanwhile.
        case notSending
    }

    /// Runs a candidate's tree beside that of the current session.
    ///
    /// - Parameter supersedes: Whether it may end another candidate.
    func begin(_ session: CredentialSession, supersedes: Bool = true) -> Beginning {
        let (beginning, superseded) = self.change { state -> (Beginning, CredentialSession?) in
            guard !state.isOver, state.hasStarted, !state.machine.isRevoked else { return (.notSending, nil) }
            guard supersedes || state.machine.candidate == nil else { return (.busy, nil) }
            state.sessions.append(session)
            // Inside the lock: a job yielded after `finish()` would be lost, and the session would never end.
            self.job.yield(.run(session))
            return (.begun, state.machine.begin(session))
        }
        if let superseded { self.close(superseded, .superseded) }
        return beginning
    }

    /// Makes the candidate the current session.
    func adopt(_ session: CredentialSession) {
        let (isAdopted, retired) = self.change { $0.machine.adopt(session) }
        guard isAdopted else { return }
        session.adopted.open()
        self.configuration.onCredential?(session.resolved)
        session.end.give(.adopted)
        if let retired { self.job.yield(.retire(retired)) }
    }

    /// Drops a candidate.
    ///
    /// - Returns: Whether it was the candidate until now.
    @discardableResult
    func giveUp(_ session: CredentialSession, _ end: CandidateEnd) -> Bool {
        guard self.change({ $0.machine.giveUp(session) }) else { return false }
        self.close(session, end)
        return true
    }

    private func close(_ session: CredentialSession, _ end: CandidateEnd) {
        session.retire()
        session.end.give(end)
        // The probe may still be waiting in the pool; this job ends that wait.
        self.job.yield(.retire(session))
    }

    // MARK: Without a probe

    /// Makes a session the current one without a probe. Pushes that wait for a replaced session then try this one
    /// (`SendRoute.end`).
    ///
    /// - Returns: False if the client has ended.
    func install(_ session: CredentialSession) async -> Bool {
        let change = self.change { state -> (retired: [CredentialSession], hasStarted: Bool)? in
            guard !state.isOver else { return nil }
            let retired = state.machine.install(session)
            if !state.hasStarted { state.sessions = [] }
            state.sessions.append(session)
            if state.hasStarted { self.job.yield(.run(session)) }
            return (retired, state.hasStarted)
        }
        guard let change else { return false }
        session.adopted.open()
        self.configuration.onCredential?(session.resolved)
        for retired in change.retired {
            if change.hasStarted {
                self.close(retired, .superseded)
            } else {
                retired.retire()
                await retired.failWaiters()
            }
        }
        return true
    }

    /// Immediately ends everything that uses a credential, including the sessions that still drain after their
    /// credential was replaced.
    func revoke() async {
        let (revoked, haveTrees) = self.change { state in
            state.machine.revoke()
            defer { if !state.hasStarted { state.sessions = [] } }
            return (state.sessions, state.hasStarted)
        }
        for session in revoked {
            session.retire()
            session.end.give(.superseded)
            session.stop()
        }
        self.configuration.logger.notice("\(AttemptEnd.revokedMessage)")
        for session in revoked {
            if haveTrees { await session.ended.wait() } else { await session.failWaiters() }
        }
    }

    // MARK: The client's life

    /// The client is running: trees may be run from now on.
    func start() {
        self.state.withLock { state in
            state.hasStarted = true
            if let current = state.machine.current { self.job.yield(.run(current)) }
        }
    }

    /// A session's tree has ended. If it was the candidate, it is dropped.
    func forget(_ session: CredentialSession) {
        let wasCandidate = self.change { state in
            state.sessions.removeAll { $0 == session }
            return state.machine.giveUp(session)
        }
        if wasCandidate { session.retire() }
        session.end.give(.superseded)
    }

    /// Starts no further trees. The caller must stop the existing ones.
    func finish() {
        let candidate = self.state.withLock { state in
            state.isOver = true
            return state.machine.candidate
        }
        candidate?.end.give(.superseded)
        self.job.finish()
    }
}
