import APNSBasics
import APNSModel
import APNSTransport
import Logging
import SupervisedPool

/// How a client replaces its credential while pushes continue: the candidate's tree opens one connection, and a probe
/// over it shows whether APNs accepts the credential. Then the candidate is adopted or dropped.
extension ClientRuntime {
    /// The pauses between probes without a verdict.
    private static let probePauses = Backoff(.doubling(), minimum: .seconds(1), maximum: .seconds(30))
    /// The time limit of one probe, with its connection and its provider token.
    private static let probeTime = Duration.seconds(30)
    /// How long the contents of a changed file may take to get a verdict.
    static let verdictTime = Duration.seconds(60)

    /// Reads and checks an authentication on a thread that may block on files.
    func resolve(_ authentication: APNSAuthentication) async throws(APNSAuthenticationError) -> ResolvedAuthentication {
        try await authentication.resolved(wallNow: self.configuration.wallClock())
    }

    /// Replaces the current credential with another one that APNs accepts.
    ///
    /// - Parameters:
    ///   - time: How long to wait for a verdict; nil: without limit.
    ///   - supersedes: Whether another candidate may be dropped for this one.
    func replaceCredential(
        with resolved: ResolvedAuthentication,
        within time: Duration?,
        supersedes: Bool = true
    ) async throws(APNSAuthenticationError) {
        let end = time.map { self.clock.now.advanced(by: $0) } ?? .distantFuture
        guard self.lifecycle.current.takesPushes else { throw .clientStopped }
        let credentials = self.credentials
        let session: CredentialSession
        do {
            session = try credentials.makeSession(resolved)
        } catch {
            throw APNSAuthenticationError(error)
        }
        switch credentials.begin(session, supersedes: supersedes) {
        case .begun: break
        case .busy: throw .superseded
        case .notSending:
            // The client has not started, or its authentication was revoked.
            guard await credentials.install(session) else { throw .clientStopped }
            return
        }
        let name = resolved.name
        self.logger.info("probing a new credential", metadata: ["credential": "\(name)"])
        async let _: Void = self.decide(on: session, until: end)
        switch await session.end.wait(onCancel: { credentials.giveUp(session, .cancelled) }) {
        case .adopted:
            self.logger.notice("a new credential is in use", metadata: ["credential": "\(name)"])
        case .refused(let words):
            throw .refused(name, words)
        case .undecided(let words):
            throw .noVerdict(name, words)
        case .superseded:
            throw self.lifecycle.current == .running ? .superseded : .clientStopped
        case .cancelled:
            throw .cancelled
        }
    }

    /// Probes the candidate, and then adopts or drops it.
    private func decide(on session: CredentialSession, until end: MonotonicInstant) async {
        let topic = self.configuration.defaultTopic ?? self.sending.router.lastBundleID
        switch await self.probe(session, topic: topic, until: end) {
        case .accepted: self.credentials.adopt(session)
        case .refused(let words): self.credentials.giveUp(session, .refused(words))
        case .undecided(let words): self.credentials.giveUp(session, .undecided(words))
        }
    }

    /// Probes a session's credential until there is a verdict.
    ///
    /// - Parameters:
    ///   - topic: The topic that the credential is needed for; nil if none is known.
    ///   - end: The time limit.
    /// - Returns: `undecided` when the time is over, the task is cancelled, or the client shuts down.
    func probe(
        _ session: CredentialSession,
        topic: String?,
        until end: MonotonicInstant
    ) async -> CredentialProbe.Verdict {
        var pauses = Self.probePauses
        while true {
            let verdict = await self.probeOnce(
                session,
                topic: topic,
                until: min(end, self.clock.now.advanced(by: Self.probeTime))
            )
            guard case .undecided = verdict, !session.isRetired else { return verdict }
            let next = self.clock.now.advanced(by: pauses.next())
            guard next < end, await !self.lifecycle.drainRequested.wait(until: next, clock: self.clock),
                !Task.isCancelled, self.clock.now < end
            else { return verdict }
        }
    }

    /// Probes the credential in use.
    func probeCurrent(topic: String, until end: MonotonicInstant) async -> CredentialProbe.Verdict {
        await self.probe(self.credentials.latest, topic: topic, until: end)
    }

    private func probeOnce(
        _ session: CredentialSession,
        topic: String?,
        until deadline: MonotonicInstant
    ) async -> CredentialProbe.Verdict {
        do {
            try await session.pool.prewarm(1, deadline: deadline)
        } catch {
            // Other failures are not the credential's fault.
            guard let fault = error.fault else { return .undecided("\(error)") }
            let isRefused = (fault.underlying as? WireError)?.code == .clientCertificateRefused
            return isRefused ? .refused("\(fault)") : .undecided("no connection could be made: \(fault)")
        }
        let probe: CredentialProbe
        do {
            let topics = session.resolved.certificate?.topics ?? []
            probe = try CredentialProbe(topic: CredentialProbe.topic(app: topic, certificate: topics))
        } catch {
            return .undecided("\(error)")
        }
        let outcome = await SendLoop(
            ProbeRequest(session: session, probe: probe),
            self.sending,
            id: self.sending.ids.next(),
            deadline: self.clock.now.duration(to: deadline),
            nil
        ).run()
        let verdict = CredentialProbe.Verdict(outcome, topic: topic)
        if case .undecided = verdict, outcome.error?.rejection == nil, let failure = session.tokens.status.lastFailure {
            return .undecided("no provider token could be signed: \(failure)")
        }
        return verdict
    }

    /// Lets streams in flight finish and ends the session's tree. Attempts that wait in its pool fail; `SendRoute.end`
    /// lets the pushes try again with the credential that is in use then.
    func retire(_ session: CredentialSession) async {
        session.retire()
        // Ends the fault of a credential that was in use.
        if session.adopted.isOpen { session.settings.credentialBreaker.replaced() }
        await session.failWaiters()
        let time = self.live.settings.timeouts.drain
        async let channelCalls = session.management.pool.drain(within: time)
        _ = await (session.pool.drain(within: time), channelCalls)
        session.stop()
    }
}

extension APNSAuthentication {
    /// Reads and checks the authentication on a thread that may block on files.
    func resolved(wallNow: Int64) async throws(APNSAuthenticationError) -> ResolvedAuthentication {
        let result = await FileThreads.runUnlessCancelled {
            Result { () throws(APNSConfigurationError) in try self.resolve(wallNow: wallNow) }
        }
        switch result {
        case .success(let resolved): return resolved
        case .failure(let error): throw APNSAuthenticationError(error)
        case nil: throw .cancelled
        }
    }
}

/// What became of a candidate.
enum CandidateEnd: Sendable, Equatable {
    case adopted
    /// With APNs' reason.
    case refused(String)
    /// Neither accepted nor refused in time, with what happened instead.
    case undecided(String)
    /// Another candidate has begun, another credential was installed, the authentication was revoked, or the client or
    /// the candidate's tree has ended.
    case superseded
    case cancelled
}
