import APNSModel
import SupervisedPool

/// Decides whether the current provider token is usable, when the signer is called, and what requests do meanwhile.
///
/// Pure: time comes as `now` on a monotonic clock and `wallNow` in seconds since 1970. The wall clock can jump. If it
/// alone says that a token in use is old, the token is therefore replaced only within limits (`isUsable`).
///
/// The current token:
/// ```
///            completed              use
///   (none) ─────────▶ unused ───────────▶ in use ─── rejected ──▶ refused
///                      ▲  ▲                │                        │
///                      │  └─── due ────────┘                        │
///                      └────────────── completed ◀──────────────────┘
/// ```
/// The call of the signer, or of the token source:
/// ```
///          wanted               longestWait           longestCall
///   (none) ───────▶ under way ──────────────▶ late ───────────────▶ abandoned, and cancelled
/// ```
/// Only one call is under way at a time. While it is late, and for a while after a failed call, requests get the old token
/// or an error at once. The result of an abandoned call is still used, unless another call was faster.
struct TokenStateMachine: Sendable {
    /// One call of the signer or the token source.
    struct Call: Sendable, Hashable {
        /// Distinguishes the calls.
        var number: Int
        /// The generation of the token that it makes.
        var generation: Int
        /// The time of the call: the `iat` of a token that is signed now.
        var issuedAt: Int64
        /// The instant of the call.
        var began: MonotonicInstant
        /// The age at which a token must be replaced.
        var refreshAge: Duration
        /// The token that is due to be replaced.
        var replaced: ProviderToken?
        /// Whether APNs has refused that token.
        var isForced: Bool
        var isLate = false

        /// When requests stop waiting for it.
        var lateAt: MonotonicInstant { self.began.advanced(by: TokenPolicy.longestWait) }
        var abandonedAt: MonotonicInstant { self.began.advanced(by: TokenPolicy.longestCall) }
    }

    private struct Token {
        var value: ProviderToken
        var signedAt: MonotonicInstant
        /// `nil` until a request carries it, as far as this machine knows.
        var firstUse: MonotonicInstant?
        /// Whether it was signed because APNs refused the previous token.
        var isForced: Bool
        /// Whether it was restored after a token from the future. The wall clock has been wrong, so the token's age is
        /// measured by the monotonic clock alone.
        var ignoresWallClock = false

        func age(now: MonotonicInstant) -> Duration { self.signedAt.duration(to: now) }

        /// The age by the wall clock.
        func wallAge(_ wallNow: Int64) -> Duration {
            .seconds(wallNow.saturatingDifference(to: self.value.issuedAt))
        }

        /// Whether the `iat` is later than this wall clock allows.
        func isFromTheFuture(_ wallNow: Int64) -> Bool {
            self.wallAge(wallNow) < .zero - TokenPolicy.futureTolerance
        }
    }

    /// How long a token is used, from its first use.
    var refreshInterval: Duration
    private var token: Token?
    /// The previous token, unless APNs has refused it.
    private var fallback: Token?
    private var lastGeneration = 0
    /// The generation of the last token that APNs refused: as expired, or because its `iat` was in the future. It is
    /// unusable at any age.
    private var lastRefused: Int?
    private(set) var isClockSuspect = false
    private var heldBackUntil: MonotonicInstant?

    /// Whether a request waits for a call that has not begun.
    private(set) var isWanted = false
    private var call: Call?
    private var lastNumber = 0
    /// The number of abandoned calls that have not returned.
    private var abandonedCalls = 0
    /// The error of the last call; nil if it returned a token.
    private(set) var lastFailure: TokenError?
    /// No call is made before this instant, because the last one failed or was late.
    private var retryAt: MonotonicInstant?
    /// No refresh that can wait is made before this instant, because the previous token was restored.
    private var refreshFrom: MonotonicInstant?
    private var retries = TokenPolicy.retries

    init(refreshInterval: Duration = TokenPolicy.refreshInterval) {
        self.refreshInterval = refreshInterval
    }

    // MARK: - A request needs a token

    enum Decision: Sendable, Hashable {
        /// This token, without further checks until this instant.
        case use(ProviderToken, until: MonotonicInstant)
        /// There is none yet. Ask again after the next change, at the latest at this instant.
        case wait(until: MonotonicInstant)
        /// There is none. The next call is made at this instant.
        case fail(TokenError, nextTry: MonotonicInstant?)
    }

    /// Decides on the token of a request that is about to be sent. A decision `use` counts as the token's use.
    mutating func use(now: MonotonicInstant, wallNow: Int64) -> Decision {
        if self.needsSignature(now: now, wallNow: wallNow) {
            if let call {
                if now < call.lateAt { return .wait(until: call.lateAt) }
            } else if self.mayCall(now: now) {
                self.isWanted = true
                return .wait(until: .distantFuture)
            }
            guard self.isUsable(now: now, wallNow: wallNow) else {
                return .fail(self.lastFailure ?? .tooSlow, nextTry: self.nextTry)
            }
        }
        guard let token else { return .fail(.tooSlow, nextTry: nil) }
        if token.firstUse == nil { self.token?.firstUse = now }
        let until = min(
            now.advanced(by: TokenPolicy.wallCheckInterval),
            token.signedAt.advanced(by: TokenPolicy.usableAge)
        )
        return .use(token.value, until: until)
    }

    /// The earliest instant of the next call.
    private var nextTry: MonotonicInstant? {
        guard let call else { return self.retryAt }
        return max(call.abandonedAt, self.retryAt ?? call.abandonedAt)
    }

    private func needsSignature(now: MonotonicInstant, wallNow: Int64) -> Bool {
        guard let token, self.isUsable(now: now, wallNow: wallNow) else { return true }
        let age = max(token.age(now: now), token.ignoresWallClock ? .zero : token.wallAge(wallNow))
        guard let firstUse = token.firstUse else {
            // APNs has not seen this token, so another one costs nothing. Replace it if 20 minutes of use would take it
            // beyond the refresh age.
            let isFromTheFuture = !token.ignoresWallClock && token.isFromTheFuture(wallNow)
            return isFromTheFuture || age >= TokenPolicy.refreshAge - TokenPolicy.shortestUse
        }
        // A token in use whose `iat` now lies in the future is kept: the wall clock may have been set back, and then a new
        // token would be the wrong one. If the old one is wrong, APNs refuses it.
        let use = firstUse.duration(to: now)
        let isDue = age >= TokenPolicy.refreshAge || use >= self.refreshInterval
        return isDue && use >= TokenPolicy.shortestUse && !self.isHeldBack(now: now)
            && now >= (self.refreshFrom ?? now)
    }

    /// Whether the current token may be sent, even if a new one is due.
    func isUsable(now: MonotonicInstant, wallNow: Int64) -> Bool {
        guard let token, !self.isRefused else { return false }
        let age = token.age(now: now)
        if age >= TokenPolicy.usableAge { return false }
        if token.ignoresWallClock || token.wallAge(wallNow) < TokenPolicy.usableAge { return true }
        // Only the wall clock says that it is old: the machine was suspended, or its clock was set. The token is then
        // replaced, unless it is younger than 60 s or signatures are held back: a jumping clock must not cause one
        // signature after another.
        return age < TokenPolicy.shortestReplaceableAge || self.isHeldBack(now: now)
    }

    // MARK: - The actor calls the signer

    /// What the actor does now.
    struct Step: Sendable, Hashable {
        /// The call to make.
        var newCall: Call?
        /// The call under way, that one included. The actor cancels its others.
        var current: Int?
        /// A call has become late.
        var report: SigningReport?
        /// When to ask again, if nothing changes earlier.
        var wakeAt: MonotonicInstant?
    }

    /// Decides whether a call is made or abandoned.
    mutating func step(now: MonotonicInstant, wallNow: Int64) -> Step {
        var step = Step()
        if let call, now >= call.lateAt {
            if !call.isLate {
                self.call?.isLate = true
                step.report = self.failed(.tooSlow, now: now)
            }
            if now >= call.abandonedAt { self.abandon(call) }
        }
        if self.call == nil, self.mayCall(now: now), self.needsCall(now: now, wallNow: wallNow) {
            step.newCall = self.begin(now: now, wallNow: wallNow)
        }
        self.isWanted = false
        step.current = self.call?.number
        if let call {
            step.wakeAt = call.isLate ? call.abandonedAt : call.lateAt
        } else if self.abandonedCalls < TokenPolicy.abandonedLimit, !self.isUsable(now: now, wallNow: wallNow) {
            // Even without a request, a client without a token should recover before the next push.
            step.wakeAt = self.retryAt
        }
        return step
    }

    private func mayCall(now: MonotonicInstant) -> Bool {
        self.abandonedCalls < TokenPolicy.abandonedLimit && now >= (self.retryAt ?? now)
    }

    private func needsCall(now: MonotonicInstant, wallNow: Int64) -> Bool {
        if self.isWanted { return self.needsSignature(now: now, wallNow: wallNow) }
        guard !self.isUsable(now: now, wallNow: wallNow) else { return false }
        // The first token is signed without a request, so that the client is ready only when it can send.
        return self.retryAt != nil || self.token == nil
    }

    private mutating func begin(now: MonotonicInstant, wallNow: Int64) -> Call {
        self.lastNumber &+= 1
        let call = Call(
            number: self.lastNumber,
            generation: self.lastGeneration &+ 1,
            issuedAt: wallNow,
            began: now,
            refreshAge: min(self.refreshInterval, TokenPolicy.refreshAge),
            replaced: self.token?.value,
            isForced: self.isRefused
        )
        self.call = call
        return call
    }

    /// No longer counts on this call. Its result is still used, unless another call is faster.
    mutating func abandon(_ call: Call) {
        guard self.call?.number == call.number else { return }
        self.call = nil
        self.abandonedCalls += 1
    }

    /// Records the result of a call.
    ///
    /// - Parameter isShared: Whether others have the token too, perhaps for some time. Its age then counts from its
    ///   `iat`, and its use from its signature.
    /// - Returns: Nil if the result has no effect: another token was installed first, or an abandoned call failed.
    mutating func completed(
        _ call: Call,
        _ result: Result<SharedProviderToken, TokenError>,
        isShared: Bool = false,
        now: MonotonicInstant
    ) -> SigningReport? {
        let isCurrent = self.call?.number == call.number
        if isCurrent { self.call = nil } else { self.abandonedCalls -= 1 }
        guard call.generation > self.lastGeneration else { return nil }
        switch result {
        case .failure(let error):
            return isCurrent ? self.failed(error, now: now) : nil
        case .success(let shared):
            defer { self.lastFailure = nil }
            // A call that was made after this one was abandoned is not needed any more.
            if let later = self.call { self.abandon(later) }
            let age = isShared ? max(call.issuedAt.saturatingDifference(to: shared.issuedAt), 0) : 0
            let signedAt = call.began.advanced(by: .zero - .seconds(age))
            self.fallback = self.isRefused ? nil : self.token
            self.token = Token(
                value: ProviderToken(jwt: shared.jwt, generation: call.generation, issuedAt: shared.issuedAt),
                signedAt: signedAt,
                firstUse: isShared ? signedAt : nil,
                isForced: self.isRefused
            )
            self.lastGeneration = call.generation
            self.retryAt = nil
            self.refreshFrom = nil
            self.retries.reset()
            self.isClockSuspect = false
            return SigningReport(failure: nil, isChange: self.lastFailure != nil)
        }
    }

    private mutating func failed(_ error: TokenError, now: MonotonicInstant) -> SigningReport {
        defer { self.lastFailure = error }
        self.retryAt = now.advanced(by: self.retries.next())
        return SigningReport(failure: error, isChange: self.lastFailure == nil)
    }

    // MARK: - APNs refuses a token

    /// The consequence of a rejection for the token that the request carried.
    enum Verdict: Sendable, Hashable {
        /// The current token stays in use.
        case kept
        /// The next attempt carries another token: the previous one, or one that is signed then.
        case replaced
        /// This machine's clock is wrong: APNs would refuse a new token too, so none is signed.
        case clockSuspect
        /// APNs has seen too many tokens. Signatures that can wait are not made before this instant.
        case tooManyUpdates(until: MonotonicInstant, isNew: Bool)
    }

    /// Whether a rejection with this reason may concern the token.
    static func concernsToken(_ reason: RejectionReason?) -> Bool {
        reason == .invalidProviderToken || reason == .expiredProviderToken || reason == .tooManyProviderTokenUpdates
    }

    /// Evaluates a rejection of a request that carried the token of this generation.
    ///
    /// Each token is replaced once, however many responses reject it. A token that expired is not replaced if it was
    /// signed less than 60 s ago, or if it was itself signed to replace a refused token less than 20 minutes ago:
    /// replacing it would lead to an endless loop.
    ///
    /// A token is from the future if the wall clock was ahead when it was signed. Servers have been seen to refuse such
    /// a token as invalid or expired (apnotic#109, node-apn#450) until the time of its `iat`. The previous token is
    /// restored if it is still usable. Otherwise one new token is signed, once the clock is right.
    ///
    /// - Parameter serverTime: The `date` of the response, in seconds since 1970. Nil: the current wall clock is used
    ///   instead.
    mutating func rejected(
        _ reason: RejectionReason?,
        generation: Int,
        serverTime: Int64?,
        now: MonotonicInstant,
        wallNow: Int64
    ) -> Verdict {
        let hasExpired = reason == .expiredProviderToken
        if reason == .tooManyProviderTokenUpdates {
            let isNew = !self.isHeldBack(now: now)
            // No signature is made because of it, and signatures that can wait are held back.
            let until = max(self.heldBackUntil ?? now, now.advanced(by: TokenPolicy.holdBack))
            self.heldBackUntil = until
            return .tooManyUpdates(until: until, isNew: isNew)
        }
        guard hasExpired || reason == .invalidProviderToken else { return .kept }
        guard let token, token.value.generation == generation, !self.isRefused else {
            return hasExpired || generation == self.lastRefused ? .replaced : .kept
        }
        let age = token.age(now: now)
        if token.isFromTheFuture(serverTime ?? wallNow) {
            if self.restoreFallback(before: serverTime ?? wallNow, now: now) { return .replaced }
            let isClockAhead = serverTime.map {
                wallNow.saturatingDifference(to: $0) > TokenPolicy.futureTolerance.components.seconds
            }
            if isClockAhead == true || token.isForced && age < TokenPolicy.shortestUse { return self.suspectClock() }
        } else {
            // Signed while the wall clock was behind. The previous token is good, if it is young enough.
            if hasExpired, self.restoreFallback(before: serverTime, now: now) { return .replaced }
            guard hasExpired, !(self.isHeldBack(now: now) && age < TokenPolicy.usableAge) else { return .kept }
            let shortestAge = token.isForced ? TokenPolicy.shortestUse : TokenPolicy.shortestReplaceableAge
            if age < shortestAge { return self.suspectClock() }
        }
        self.lastRefused = generation
        return .replaced
    }

    private mutating func suspectClock() -> Verdict {
        self.isClockSuspect = true
        return .clockSuspect
    }

    /// Makes the previous token the current one again, if it is usable.
    ///
    /// - Parameter time: the time, in seconds since 1970; nil if it is not known. A token with a later `iat` is not restored.
    private mutating func restoreFallback(before time: Int64?, now: MonotonicInstant) -> Bool {
        guard let fallback, fallback.age(now: now) < TokenPolicy.usableAge,
            time.map({ !fallback.isFromTheFuture($0) }) ?? true
        else { return false }
        self.lastRefused = self.token?.value.generation
        self.token = fallback
        self.token?.ignoresWallClock = true
        self.fallback = nil
        // The clock may still be ahead, so postpone refreshes that can wait.
        self.refreshFrom = now.advanced(by: TokenPolicy.shortestUse)
        return true
    }

    // MARK: - State

    /// The current token, unless APNs has refused it.
    var current: ProviderToken? { self.isRefused ? nil : self.token?.value }

    /// The current token's generation.
    var generation: Int? { self.token?.value.generation }

    /// The time since the current token's signature.
    func age(now: MonotonicInstant) -> Duration? { self.token?.age(now: now) }

    /// The end of the period in which signatures are held back because of `TooManyProviderTokenUpdates`; nil outside
    /// it.
    func heldBackUntil(now: MonotonicInstant) -> MonotonicInstant? {
        self.isHeldBack(now: now) ? self.heldBackUntil : nil
    }

    private var isRefused: Bool { self.token.map { $0.value.generation == self.lastRefused } ?? false }

    private func isHeldBack(now: MonotonicInstant) -> Bool { now < (self.heldBackUntil ?? now) }
}

/// The result of a call of the signer, for the log and the health.
struct SigningReport: Sendable, Hashable {
    /// Nil: it returned a token.
    var failure: TokenError?
    /// Whether the previous call ended otherwise: the first failure, or the first token after one.
    var isChange: Bool
}

extension Int64 {
    /// `self - other`, limited to the range of the type.
    func saturatingDifference(to other: Int64) -> Int64 {
        let (difference, overflow) = self.subtractingReportingOverflow(other)
        return overflow ? (self < other ? .min : .max) : difference
    }
}
