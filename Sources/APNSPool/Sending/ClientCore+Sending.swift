// This folder: the way of one push, from the call to its outcome. What an attempt proves, whether another one follows,
// and the limits that protect APNs and the caller. Bulk calls are in Bulk; connections and what they do with a stream
// in Connection.

import APNSModel
import HTTP2Wire
import Logging
import SupervisedPool
import Synchronization

extension ClientCore {
    /// The way of one push: provider token, slot, stream, answer, and again where that is safe. Never throws, and
    /// ends by its deadline.
    ///
    /// - Parameter dated: how to fill in another timestamp, if that of `push` was filled in.
    func deliver(
        _ push: PreparedPush,
        to token: DeviceToken,
        options: DeliveryOptions,
        dated: SupersedeTurns.Dated? = nil
    ) async -> PushOutcome {
        let flight = PushFlight(push, to: token, options, self)
        guard self.lifecycle.enter() else {
            self.counters.refusals.wrappingAdd(1, ordering: .relaxed)
            return flight.failed(.shuttingDown, "the client is shutting down and takes no further pushes", self)
        }
        defer { flight.leave(self) }
        if flight.mustWait(self), let outcome = await flight.wait(self, dated: dated) { return outcome }
        while true {
            var preparation = flight.prepare(self)
            if preparation == .unsigned { preparation = await flight.sign(self) }
            if preparation == .ready { await self.attempt(flight) }
            switch flight.conclude(self) {
            case .finish(let outcome):
                return outcome
            case .retry(let delay):
                if delay > .zero { await self.pause(delay) }
                if Task.isCancelled { return flight.cancelled(self) }
            }
        }
    }

    /// A slot, the stream, and what became of it.
    private func attempt(_ flight: PushFlight) async {
        guard let pool = flight.pool else { return }
        let slot = flight.slotRequest
        do {
            let lease = try await pool.checkout(
                deadline: slot.deadline,
                bytes: slot.bytes,
                lane: slot.lane,
                atFront: slot.atFront
            )
            guard flight.board(self) else { return }
            flight.land(await lease.worker.send { flight.submission(self, $0, $1) }, self)
        } catch {
            flight.hasNoSlot(error)
        }
    }

    @inline(never)
    private func pause(_ time: Duration) async {
        _ = await self.lifecycle.ended.wait(until: self.clock.now.advanced(by: time), clock: self.clock)
    }

    /// Counts it, and tells those who asked.
    @inline(never)
    @discardableResult
    func ended(
        _ outcome: PushOutcome,
        _ push: PreparedPush,
        _ token: DeviceToken,
        _ span: CallSpan? = nil
    ) -> PushOutcome {
        self.observer.pushes.count(outcome, push.pushType)
        if let error = outcome.error { self.logFailure(error, push, token) }
        span?.end(outcome)
        return outcome
    }

    /// Tells those who listen for device tokens that are to be forgotten.
    @inline(never)
    func tellInvalid(_ outcome: PushOutcome, _ push: PreparedPush, _ token: DeviceToken) {
        guard let invalidation = outcome.invalidation else { return }
        let invalid = InvalidToken(deviceToken: token, topic: push.topic, invalidation: invalidation)
        self.invalidTokens.post(invalid)
        self.configuration.groupInvalidTokens?.post(invalid)
    }

    /// What follows from the end of a try.
    @inline(never)
    func next(_ end: AttemptEnd, _ history: inout PushHistory) -> PushHistory.Decision {
        if case .accepted(let receipt) = end { return .finish(.accepted(receipt)) }
        var generator = SplitMix64(seed: nil)
        let decision = history.decide(
            end,
            policy: self.configuration.retry,
            now: self.clock.now,
            using: &generator,
            isDegraded: self.events.degradedConnections > 0,
            takeBudget: { self.retries.take(now: self.clock.now) }
        )
        if case .retry = decision {
            // What is left when the tree is gone is not tried again.
            if self.lifecycle.current == .stopped {
                return .finish(history.fail(.shuttingDown, "the client was shut down"))
            }
            self.counters.resends.wrappingAdd(1, ordering: .relaxed)
        }
        return decision
    }

    /// Counts the try and reads its result; tells the token's keeper what concerns it.
    @inline(never)
    func read(_ result: StreamResult, credential: PushCredential?, history: inout PushHistory) -> AttemptEnd {
        if result.ending != .notSent { history.countAttempt() }
        if result.isAccepted { return .accepted(result.receipt(id: history.id, attempts: history.attempts)) }
        let end = AttemptEnd(
            result,
            id: history.id,
            attempts: history.attempts,
            answerTimeout: .nanoseconds(self.live.answerNanoseconds),
            isPastDeadline: self.clock.now >= history.deadline,
            isShuttingDown: !self.lifecycle.current.takesPushes
        )
        guard case .rejected(let rejection, let retryAfter) = end, let credential else { return end }
        if let end = self.refusedOnTrial(rejection, credential) { return end }
        guard let token = credential.token else { return end }
        let date = rejection.status == 403 ? result.fields.first("date") : nil
        if rejection.status == 403 { self.tellClockSkew(date) }
        if rejection.reason == .invalidProviderToken || rejection.reason == .expiredProviderToken {
            let decision = credential.scope.tokens.refusedFromFuture(
                generation: token.generation,
                serverTime: date.flatMap(ClockSkew.seconds(imfFixdate:)),
                now: self.clock.now,
                wallNow: self.configuration.wallClock()
            )
            switch decision {
            case .restored, .refresh:
                history.tokenIsReplaced()
                return end
            case .clockSuspect:
                self.tellClockSuspect()
                return end
            case .unrelated:
                break
            }
        }
        switch rejection.reason {
        case .some(.expiredProviderToken):
            // However it is decided the push goes once more, on a new session: one that refused an old token has been
            // seen to refuse the fresh one too.
            let decision = credential.scope.tokens.expired(generation: token.generation, now: self.clock.now)
            if decision == .clockSuspect { self.tellClockSuspect() }
            return end
        case .some(.tooManyProviderTokenUpdates):
            let (until, isNew) = credential.scope.tokens.tooManyUpdates(now: self.clock.now)
            let time = self.clock.now.duration(to: until)
            if isNew { self.tellTooManyUpdates(time) }
            return .rejected(rejection, retryAfter: retryAfter ?? time)
        default:
            return end
        }
    }

    /// Another process with the same key is the usual reason: APNs counts a key's tokens wherever they come from.
    private func tellTooManyUpdates(_ time: Duration) {
        self.logger.error(
            "APNs has seen too many provider tokens of this key; the one in use is kept. Do other processes sign for it?",
            metadata: ["credential": "\(self.credentialName)", "no-new-token-for": "\(time)"]
        )
    }

    /// A provider token is refused when this machine's clock is wrong; the answer's date shows that. Told once.
    private func tellClockSkew(_ date: String?) {
        guard let hint = ClockSkew.skewHint(dateHeader: date, wallNow: WallClock.secondsSince1970()),
            !self.counters.isClockSkewTold.exchange(true, ordering: .relaxed)
        else { return }
        self.logger.error("APNs refuses the provider token", metadata: ["clock": "\(hint)"])
    }

    private func tellClockSuspect() {
        guard !self.counters.isClockSuspectTold.exchange(true, ordering: .relaxed) else { return }
        self.logger.error(
            "APNs refuses a provider token that was just signed, because of its time: is this machine's clock right?"
        )
    }

    /// Why the push is not sent at all.
    @inline(never)
    func refusal(_ push: PreparedPush) -> AttemptEnd? {
        if case .at = push.expiration, push.isExpired(atSecondsSince1970: WallClock.secondsSince1970()) {
            return .notSent(.expired, "its apns-expiration passed while it waited", isFinal: true)
        }
        return self.interruption()
    }

    /// Why nothing is sent at all at the moment.
    @inline(never)
    func interruption() -> AttemptEnd? {
        if self.lifecycle.current == .stopped {
            return .notSent(.shuttingDown, "the client was shut down", isFinal: true)
        }
        if let until = self.pausedUntil.withLock({ $0 }) {
            return .notSent(
                .unavailable,
                "the client restarts after an internal fault",
                retryAfter: self.clock.now.duration(to: until),
                isFinal: true
            )
        }
        return nil
    }

    /// Why nothing is sent while APNs refuses the credential. Nil for all when it does not, else for one push at a time:
    /// the probe.
    ///
    /// - Parameter settings: of the connections that it is to go over; nil: the pushes'.
    @inline(never)
    func credentialFault(_ credential: PushCredential, over settings: ConnectionSettings? = nil) -> AttemptEnd? {
        let scope = credential.scope
        let settings = settings ?? scope.settings
        guard let (refusal, retryAfter) = settings.credentials.refusal(now: self.clock.now) else { return nil }
        if credential.isTrial { return credential.again }
        return .notSent(
            .credential,
            "APNs refuses the credential (\(scope.resolved.name)) on each new connection: \(refusal)",
            retryAfter: retryAfter,
            isFinal: true
        )
    }

    /// What is shown to APNs, without secrets.
    var credentialName: String { self.keeper.latest.resolved.name }

    struct CredentialFailure: Error {
        var end: AttemptEnd
    }

    /// What to send with: pool, connections and provider token of one credential.
    ///
    /// - Parameter mayTry: whether it may be a new credential that is to be tried.
    func credential(
        until deadline: MonotonicInstant,
        mayTry: Bool = true
    ) async -> Result<PushCredential, CredentialFailure> {
        guard let credential = mayTry ? self.keeper.route() : self.keeper.withoutTrial else {
            return .failure(.revoked)
        }
        if let credential = credential.renewed(now: self.clock.now) { return .success(credential) }
        return await self.signedCredential(credential, until: deadline)
    }

    /// The slow path: the actor signs, or its first run is still to come.
    func signedCredential(
        _ credential: PushCredential,
        until deadline: MonotonicInstant
    ) async -> Result<PushCredential, CredentialFailure> {
        var pause = Duration.milliseconds(5)
        while true {
            if let actor = credential.scope.tokenActor.current {
                let answer = await withTaskGroup(of: Result<ProviderToken, TokenError>?.self) { group in
                    group.addTask { await actor.token() }
                    group.addTask {
                        try? await self.clock.sleep(until: deadline)
                        return nil
                    }
                    let first = await group.next() ?? nil
                    group.cancelAll()
                    return first
                }
                switch answer {
                case .success(let token):
                    return .success(PushCredential(scope: credential.scope, token: token, claim: credential.claim))
                case .failure(let error) where error.code == .signingFailed:
                    let pause = credential.scope.tokens.nextTry(now: self.clock.now)
                    return .failure(
                        CredentialFailure(
                            end: .notSent(.credential, error.description, retryAfter: pause, isFinal: true)
                        )
                    )
                case .failure, nil:
                    break
                }
            }
            // The token's child is about to start or to be restarted.
            if Task.isCancelled {
                return .failure(
                    CredentialFailure(end: .notSent(.cancelled, "the sending task was cancelled", isFinal: true))
                )
            }
            if let end = self.interruption() { return .failure(CredentialFailure(end: end)) }
            if credential.scope.isRetired { return .failure(CredentialFailure(end: credential.again)) }
            let now = self.clock.now
            guard now < deadline else {
                return .failure(
                    CredentialFailure(
                        end: .notSent(.deadlineExceeded, "no provider token was ready in time", isFinal: true)
                    )
                )
            }
            try? await self.clock.sleep(until: min(now.advanced(by: pause), deadline))
            pause = min(pause * 2, .milliseconds(200))
        }
    }
}

extension PoolLane {
    init(_ lane: PushLane) {
        self = lane == .bulk ? .bulk : .interactive
    }
}
