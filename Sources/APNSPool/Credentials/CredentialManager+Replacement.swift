import APNSModel
import HTTP2Wire
import Logging
import NIOPosix
import SupervisedPool

/// Replacing one credential with another while pushes continue.
extension CredentialManager {
    /// The pauses before another try of a candidate without a verdict.
    private static let trialPauses = Backoff(.doubling(), minimum: .seconds(1), maximum: .seconds(30))
    /// How long the trial waits each time for the candidate's connection to open, and for its provider token.
    private static let trialConnectTime = Duration.seconds(30)

    /// Reads and checks an authentication on a thread that may block on files.
    func resolve(_ authentication: APNSAuthentication) async throws(APNSAuthenticationError) -> ResolvedAuthentication {
        let wallNow = self.configuration.wallClock()
        let result = try? await NIOThreadPool.singleton.runIfActive {
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
            session.settings.credentialBreaker.trust()
            guard let dropped = self.install(session) else { throw .clientStopped }
            for session in dropped { await session.failWaiters() }
            return
        }
        let name = resolved.name
        self.logger.info("trying a new credential", metadata: ["credential": "\(name)"])
        let end = await withTaskGroup(of: TrialEnd.self) { group in
            group.addTask { await self.runTrial(session) }
            group.addTask {
                guard let time else {
                    // `wait` returns false if the calling task was cancelled or the other task has the result.
                    return await session.ended.wait() ? .event(.superseded) : .timeOver
                }
                try? await self.clock.sleep(until: self.clock.now.advanced(by: time))
                return .timeOver
            }
            let first = await group.next() ?? .timeOver
            group.cancelAll()
            return first
        }
        // An acceptance wins over a timeout: then there is no trial to give up, and the session is not retired.
        if self.giveUp(session) || end != .event(.accepted) && session.isRetired {
            switch end {
            case .event(.refused(let words)):
                throw APNSAuthenticationError(
                    .refused,
                    "APNs refuses \(name): \(words). The old credential stays in use."
                )
            case .event(.superseded), .event(.inconclusive):
                if self.lifecycle.current != .running { throw .clientStopped }
                throw APNSAuthenticationError(.superseded, "Another change of the authentication replaced this one.")
            case .event(.accepted), .timeOver:
                if Task.isCancelled { throw .cancelled }
                throw APNSAuthenticationError(.noVerdict, await self.noVerdict(session))
            }
        }
        self.logger.notice("a new credential is in use", metadata: ["credential": "\(name)"])
    }

    private var clock: any MonotonicClock { self.configuration.clock }
    private var logger: Logger { self.configuration.logger }

    private enum TrialEnd: Sendable, Equatable {
        case event(TrialEvents.Event)
        case timeOver
    }

    private func noVerdict(_ session: CredentialSession) async -> String {
        let name = session.resolved.name
        do {
            try await session.pool.waitUntilReady(1, deadline: self.clock.now)
        } catch {
            if let fault = error.fault {
                return "No connection could be made with \(name) in time: \(fault). The old credential stays in use."
            }
        }
        if let failure = session.tokens.status.lastFailure {
            return "No provider token was available for \(name) in time: \(failure) The old credential stays in use."
        }
        return "APNs responded to no push with \(name) in time. The old credential stays in use."
    }

    /// Prepares the candidate's connection and token, then lets one push try it. Repeats until there is a verdict.
    private func runTrial(_ session: CredentialSession) async -> TrialEnd {
        var events = session.trialEvents.stream.makeAsyncIterator()
        var pauses = Self.trialPauses
        while true {
            switch await self.prepare(session) {
            case .ready: break
            case .hopeless(let words): return .event(.refused(words))
            case .notYet:
                if Task.isCancelled { return .timeOver }
                // Leaves the switch: the next event below says why the session was retired.
                if session.isRetired { break }
                try? await self.clock.sleep(until: self.clock.now.advanced(by: pauses.next()))
                continue
            }
            _ = self.arm(session)
            guard let event = await events.next() else { return .timeOver }
            guard event == .inconclusive else { return .event(event) }
            // Pause first: the push that has just failed with the candidate must be resent with the active credential.
            try? await self.clock.sleep(until: self.clock.now.advanced(by: pauses.next()))
            if Task.isCancelled { return .timeOver }
        }
    }

    private enum Preparation {
        case ready
        case notYet
        case hopeless(String)
    }

    private func prepare(_ session: CredentialSession) async -> Preparation {
        do {
            try await session.pool.prewarm(1, deadline: self.clock.now.advanced(by: Self.trialConnectTime))
        } catch {
            // Other failures are not the credential's fault.
            guard let fault = error.fault, (fault.underlying as? WireError)?.code == .clientCertificateRefused else {
                return .notYet
            }
            return .hopeless(fault.description)
        }
        guard session.resolved.signer != nil else { return .ready }
        let deadline = self.clock.now.advanced(by: Self.trialConnectTime)
        if case .use = await session.tokens.token(until: deadline, while: { !session.isRetired }) { return .ready }
        return .notYet
    }

    /// Evaluates a rejection of the push that probed the candidate.
    ///
    /// - Returns: The end of the attempt, after which the push is resent once with the active credential; nil if the
    ///   rejection says nothing about the candidate.
    func evaluate(_ rejection: Rejection, ofProbe session: CredentialSession) -> AttemptEnd? {
        let reason = rejection.reason
        if rejection.status == 403 || reason == .tooManyProviderTokenUpdates {
            let words = reason.map { "\($0.rawValue): \($0.meaning ?? "no meaning known")" } ?? "status 403"
            self.giveUp(session, because: .refused(words))
            return .credentialReplaced
        }
        // The candidate may lack this topic, or no credential may have it: the active credential decides.
        return reason == .topicDisallowed || reason == .deviceTokenNotForTopic ? .credentialReplaced : nil
    }

    // MARK: Retirement and revocation

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

    /// Immediately ends everything that uses the credential.
    func revoke() async {
        let (revoked, haveTrees) = self.beginRevocation()
        self.logger.notice("\(AttemptEnd.revokedMessage)")
        for session in revoked { session.stop() }
        for session in revoked {
            if haveTrees { _ = await session.ended.wait() } else { await session.failWaiters() }
        }
    }

    // MARK: Watching files and the calendar

    /// Reads the files of the current credential again.
    ///
    /// - Returns: True if the key or certificate in the files came into use. False if it is the same as before and was
    ///   not revoked.
    func reload(within time: Duration?) async throws(APNSAuthenticationError) -> Bool {
        let current = self.latest.resolved
        let resolved = try await self.resolve(current.authentication)
        if resolved.isSame(as: current), !self.isRevoked { return false }
        try await self.replace(with: resolved, within: time)
        return true
    }

    /// Watches the files of a credential and the expiry of its certificate until the session is retired.
    func watch(_ session: CredentialSession) async {
        let authentication = session.resolved.authentication
        // Without file checks, only the certificate's expiry is checked: once an hour.
        let interval = authentication.fileCheckInterval ?? .seconds(3600)
        var files = CredentialFileWatch(session.resolved.stamps)
        var expiry = CertificateExpiryWatch()
        await withDiscardingTaskGroup { group in
            while !session.isRetired, !Task.isCancelled {
                self.logExpiry(expiry.check(session.resolved, wallNow: self.configuration.wallClock()), session)
                if await session.ended.wait(until: self.clock.now.advanced(by: interval), clock: self.clock) { break }
                guard authentication.fileCheckInterval != nil, !authentication.files.isEmpty, session.adopted.isOpen,
                    !session.isRetired,
                    let stamps = await FileThreads.runUnlessCancelled({
                        authentication.files.map(FileStamp.init(of:))
                    }),
                    files.check(stamps)
                else { continue }
                do throws(APNSAuthenticationError) {
                    let resolved = try await self.resolve(authentication)
                    files.wereRead()
                    guard !resolved.isSame(as: session.resolved) else { continue }
                    group.addTask { await self.tryReloaded(resolved) }
                } catch {
                    if files.noteUnusable() {
                        self.logger.warning(
                            "a changed key or certificate file cannot be used (yet); the old credential stays in use",
                            metadata: ["error": "\(error)"]
                        )
                    }
                }
            }
            group.cancelAll()
        }
    }

    private func tryReloaded(_ resolved: ResolvedAuthentication) async {
        do throws(APNSAuthenticationError) {
            try await self.replace(with: resolved, within: nil)
        } catch {
            guard error.code == .refused || error.code == .configuration else { return }
            self.logger.error(
                "the key or certificate in the changed file is not used",
                metadata: ["error": "\(error)"]
            )
        }
    }

    private func logExpiry(_ warning: CertificateExpiryWatch.Warning?, _ session: CredentialSession) {
        let name = session.resolved.name
        switch warning {
        case .expires(let days):
            self.logger.warning(
                "the client certificate expires in \(days) days: make a new one in the developer portal",
                metadata: ["credential": "\(name)"]
            )
        case .expired:
            self.logger.error("the client certificate has expired", metadata: ["credential": "\(name)"])
        case nil:
            break
        }
    }
}

extension CertificateExpiryWatch {
    fileprivate mutating func check(_ resolved: ResolvedAuthentication, wallNow: Int64) -> Warning? {
        resolved.certificate.flatMap { self.check(notAfter: $0.notAfter, wallNow: wallNow) }
    }
}

extension CredentialSession {
    /// Whether the credential needs watching: it has a certificate that expires, or files that are checked for changes.
    var isWatched: Bool {
        self.resolved.certificate != nil
            || !self.resolved.authentication.files.isEmpty && self.resolved.authentication.fileCheckInterval != nil
    }
}
