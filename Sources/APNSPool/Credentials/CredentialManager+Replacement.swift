import APNSBasics
import APNSModel
import HTTP2Wire
import Logging
import SupervisedPool

/// Replacing one credential with another while pushes continue.
extension CredentialManager {
    /// The pauses before another try of a candidate without a verdict.
    private static let trialPauses = Backoff(.doubling(), minimum: .seconds(1), maximum: .seconds(30))
    /// How long the trial waits each time for the candidate's connection to open, and for its provider token.
    private static let trialConnectTime = Duration.seconds(30)

    private var clock: any MonotonicClock { self.configuration.clock }

    /// Reads and checks an authentication on a thread that may block on files.
    func resolve(_ authentication: APNSAuthentication) async throws(APNSAuthenticationError) -> ResolvedAuthentication {
        let wallNow = self.configuration.wallClock()
        let result = await FileThreads.runUnlessCancelled {
            Result { () throws(APNSConfigurationError) in try authentication.resolve(wallNow: wallNow) }
        }
        switch result {
        case .success(let resolved): return resolved
        case .failure(let error): throw APNSAuthenticationError(error)
        case nil: throw .cancelled
        }
    }

    /// Replaces the current credential with another one.
    ///
    /// - Parameter time: How long to wait for a verdict; nil: without limit.
    func replace(
        with resolved: ResolvedAuthentication,
        within time: Duration?
    ) async throws(APNSAuthenticationError) {
        guard self.lifecycle.current.takesPushes else { throw .clientStopped }
        let session: CredentialSession
        do {
            session = try self.makeSession(resolved)
        } catch {
            throw APNSAuthenticationError(error)
        }
        guard self.begin(session) else {
            // No active credential could carry pushes during a trial.
            guard await self.install(session) else { throw .clientStopped }
            return
        }
        let logger = self.configuration.logger
        let name = resolved.name
        logger.info("trying a new credential", metadata: ["credential": "\(name)"])
        async let _: Void = self.runTrial(session)
        async let _: Void = self.endTrial(session, after: time)
        switch await session.verdict.wait(onCancel: { self.giveUp(session, .cancelled) }) {
        case .accepted:
            logger.notice("a new credential is in use", metadata: ["credential": "\(name)"])
        case .refused(let words):
            throw APNSAuthenticationError(.refused, "APNs refuses \(name): \(words). The old credential stays in use.")
        case .undecided(let words):
            throw APNSAuthenticationError(.noVerdict, "\(words) The old credential stays in use.")
        case .superseded:
            if self.lifecycle.current != .running { throw .clientStopped }
            throw APNSAuthenticationError(.superseded, "Another change of the authentication replaced this one.")
        case .cancelled:
            throw .cancelled
        }
    }

    /// Prepares the candidate's connection and token, then lets one push try it. Repeats this until the trial is over.
    private func runTrial(_ session: CredentialSession) async {
        var pauses = Self.trialPauses
        while !Task.isCancelled, self.phase(of: session) != nil {
            if await self.prepare(session), self.arm(session) { await self.waitForProbe(session) }
            // The push that has just failed with the candidate must be resent with the active credential.
            try? await self.clock.sleep(until: self.clock.now.advanced(by: pauses.next()))
        }
    }

    /// - Returns: Whether a push may try the candidate.
    private func prepare(_ session: CredentialSession) async -> Bool {
        let deadline = self.clock.now.advanced(by: Self.trialConnectTime)
        do {
            try await session.pool.prewarm(1, deadline: deadline)
        } catch {
            // Other failures are not the credential's fault.
            if let fault = error.fault, (fault.underlying as? WireError)?.code == .clientCertificateRefused {
                self.giveUp(session, .refused(fault.description))
            }
            return false
        }
        guard session.resolved.signer != nil else { return true }
        let decision = await session.tokens.token(until: deadline, version: session.version) { !session.isRetired }
        if case .use = decision { return true }
        return false
    }

    private func endTrial(_ session: CredentialSession, after time: Duration?) async {
        guard let time else { return }
        try? await self.clock.sleep(until: self.clock.now.advanced(by: time))
        if Task.isCancelled { return }
        self.giveUp(session, .undecided(await self.reasonForNoVerdict(session)))
    }

    private func reasonForNoVerdict(_ session: CredentialSession) async -> String {
        let name = session.resolved.name
        do {
            try await session.pool.waitUntilReady(1, deadline: self.clock.now)
        } catch {
            if let fault = error.fault { return "No connection could be made with \(name) in time: \(fault)." }
        }
        if let failure = session.tokens.status.lastFailure {
            return "No provider token was available for \(name) in time: \(failure)"
        }
        return "APNs responded to no push with \(name) in time."
    }

    /// Evaluates a rejection of the push that probed the candidate.
    ///
    /// - Returns: The end of the attempt, after which the push is resent once with the active credential; nil if the
    ///   rejection says nothing about the candidate.
    func evaluate(_ rejection: Rejection, ofProbe session: CredentialSession) -> AttemptEnd? {
        let reason = rejection.reason
        if rejection.status == 403 || reason == .tooManyProviderTokenUpdates {
            let words = reason.map { "\($0.rawValue): \($0.meaning ?? "no meaning known")" } ?? "status 403"
            self.giveUp(session, .refused(words))
            return .credentialReplaced
        }
        // A key may be limited to some topics (Apple, "Establishing a token-based connection to APNs"). The candidate may
        // lack this topic, or no credential may have it: the active credential decides.
        return reason == .topicDisallowed || reason == .deviceTokenNotForTopic ? .credentialReplaced : nil
    }

    /// Lets streams in flight finish and ends the session's tree. Pushes waiting in its pool move to the next session.
    func retire(_ session: CredentialSession) async {
        session.retire()
        // Ends the fault of an adopted credential. A candidate refused on trial was never in use.
        if session.adopted.isOpen { session.settings.credentialBreaker.replaced() }
        await session.pool.drain()
        await session.pool.failWaiters()
        _ = await session.pool.drain(within: self.live.settings.timeouts.drain)
        session.stop()
    }
}
