import APNSModel
import SupervisedPool

/// The times that rule a provider token's life. Apple, "Establishing a token-based connection to APNs": a token is to be
/// refreshed no more than once every 20 minutes and no less than once every 60.
struct TokenPolicy: Sendable, Hashable {
    static let refreshLimits = Duration.seconds(20 * 60)...Duration.seconds(60 * 60)

    /// APNs answers 429 `TooManyProviderTokenUpdates` to tokens that follow each other faster. It seems to count from
    /// the moment in which it first sees a token, not from `iat`.
    static let shortestUse = Duration.seconds(20 * 60)
    /// Whatever the interval, older tokens are replaced: at 60 minutes APNs answers 403 `ExpiredProviderToken`.
    static let refreshAge = Duration.seconds(55 * 60)
    /// Older tokens are not used any more, even if no new one can be had.
    static let usableAge = Duration.seconds(58 * 60)
    /// A token refused as expired so soon after its signature is not old: the clock is wrong.
    static let shortestForcedAge = Duration.seconds(60)
    /// How far ahead of the wall clock an `iat` may lie before it counts as wrong.
    static let futureTolerance = Duration.seconds(60)
    /// No new signature for so long after `TooManyProviderTokenUpdates`.
    static let holdBack = Duration.seconds(20 * 60)
    /// The wait after a first failed refresh, doubling to `longestRetry`, while the old token serves.
    static let firstRetry = Duration.seconds(5)
    static let longestRetry = Duration.seconds(60)
    /// How long those who need a token wait for a signature. Then they have the old token, or an error.
    static let longestWait = Duration.seconds(10)
    /// How much longer a user's token source may take before its call is given up: it is not called again meanwhile.
    static let sourcePatience = Duration.seconds(20)
    /// How often at least the wall clock is looked at.
    static let wallCheckInterval = Duration.seconds(30)

    let refreshInterval: Duration

    /// 50 minutes.
    static let standard = TokenPolicy(unchecked: .seconds(50 * 60))

    private init(unchecked interval: Duration) {
        self.refreshInterval = interval
    }

    /// - Parameter refreshInterval: How long a token is used, from its first use: 20 to 60 minutes.
    /// - Throws: `outOfRange` outside these limits.
    init(refreshInterval: Duration) throws(APNSConfigurationError) {
        guard Self.refreshLimits.contains(refreshInterval) else {
            throw APNSConfigurationError(
                .outOfRange,
                setting: "authentication.tokenRefreshInterval",
                message: "\(refreshInterval) is not within 20 to 60 minutes, the limits that APNs sets. "
                    + "Leave it out for the usual 50 minutes."
            )
        }
        self.init(unchecked: refreshInterval)
    }
}

/// Decides when the provider token in use still serves and when a new one is signed. Pure: it knows tokens by their
/// generation (1, 2, …) and two clocks by the numbers that it is given, `now` on a clock that never goes back and
/// `wallNow` in seconds since 1970. It never trusts the wall clock alone, for that one jumps.
///
/// ```
///            sign                 use
///   (none) ────────▶ unused ───────────▶ in use ─── expired(generation) ──▶ refused
///                      ▲  ▲                │                                   │
///                      │  └─── due ────────┘                                   │
///                      └────────────────── sign ◀──────────────────────────────┘
/// ```
/// The token before the current one is kept while it may still serve. It comes back when APNs refuses the current one
/// and that one's `iat` lies in the future: the wall clock was ahead when it was signed.
struct TokenStateMachine: Sendable {
    /// A signature to make, as ``use(now:wallNow:)`` ordered it.
    struct Order: Sendable, Hashable {
        /// The new token's generation.
        var generation: Int
        /// Its `iat`.
        var issuedAt: Int64
        /// When it was ordered.
        var orderedAt: MonotonicInstant
    }

    private struct Token {
        var generation: Int
        var issuedAt: Int64
        var signedAt: MonotonicInstant
        /// `nil` until a request has carried it, as far as is known here.
        var firstUse: MonotonicInstant?
        /// Signed because the one before it was refused as expired.
        var isForced: Bool
        /// APNs has called it expired, or it is from the future: useless, whatever its age.
        var isRefused = false
        /// It came back after one from the future. The wall clock has been wrong, so its age is measured by the other
        /// clock alone.
        var ignoresWallClock = false
    }

    var policy: TokenPolicy
    private var token: Token?
    /// The token before, while APNs has not refused it.
    private var fallback: Token?
    private var lastGeneration = 0
    /// The last token that APNs refused and whose `iat` was in the future.
    private var lastFromFuture: Int?
    /// No call of the signer before this instant: the last one did not answer in time.
    private var silentUntil: MonotonicInstant?
    /// When the next try is due after a failed one.
    private(set) var retryAt: MonotonicInstant?
    private var retryDelay = TokenPolicy.firstRetry
    private var heldBackUntil: MonotonicInstant?
    private(set) var isClockSuspect = false

    init(policy: TokenPolicy) {
        self.policy = policy
    }

    // MARK: - A request needs a token

    enum UseDecision: Sendable, Hashable {
        /// The current token serves. This counts as its use.
        case useCurrent
        /// A new token is needed. The current one, if any, serves until it is there only as `signingFailed` says.
        case sign(Order)
        /// There is no token, and the signer is not called before this instant: it did not answer the last call in time.
        case unavailable(until: MonotonicInstant)
    }

    /// A request is about to be sent. Asking again while a signature is under way gives the same order again.
    mutating func use(now: MonotonicInstant, wallNow: Int64) -> UseDecision {
        if self.needsSignature(now: now, wallNow: wallNow) {
            guard let silentUntil, now < silentUntil else {
                return .sign(
                    Order(generation: self.lastGeneration.saturatingSuccessor, issuedAt: wallNow, orderedAt: now)
                )
            }
            guard self.isUsable(now: now, wallNow: wallNow) else { return .unavailable(until: silentUntil) }
        }
        self.noteUse(now: now)
        return .useCurrent
    }

    private func needsSignature(now: MonotonicInstant, wallNow: Int64) -> Bool {
        guard let token, !token.isRefused else { return true }
        let age = token.signedAt.duration(to: now)
        let wallAge = token.ignoresWallClock ? age : Self.wallAge(issuedAt: token.issuedAt, wallNow: wallNow)
        guard self.isUsable(now: now, wallNow: wallNow) else { return true }

        let isFromTheFuture = wallAge < .zero - TokenPolicy.futureTolerance
        guard let firstUse = token.firstUse else {
            // APNs has not seen it: another one costs nothing. It must last its 20 minutes.
            let longestWait = TokenPolicy.refreshAge - TokenPolicy.shortestUse
            return isFromTheFuture || max(age, wallAge) >= longestWait
        }
        let use = firstUse.duration(to: now)
        let isDue =
            use >= self.policy.refreshInterval || max(age, wallAge) >= TokenPolicy.refreshAge || isFromTheFuture
        return isDue && use >= TokenPolicy.shortestUse && !self.isHeldBack(now: now) && now >= (self.retryAt ?? now)
    }

    /// Whether the current token may be sent, however much a new one is due.
    func isUsable(now: MonotonicInstant, wallNow: Int64) -> Bool {
        guard let token, !token.isRefused else { return false }
        let age = token.signedAt.duration(to: now)
        if age >= TokenPolicy.usableAge { return false }
        if token.ignoresWallClock { return true }
        guard Self.wallAge(issuedAt: token.issuedAt, wallNow: wallNow) >= TokenPolicy.usableAge else { return true }
        // Old by the wall clock alone: the machine was suspended, or its clock was set. That may lead to a signature,
        // not to one a minute.
        return age < TokenPolicy.shortestForcedAge || self.isHeldBack(now: now)
    }

    private mutating func noteUse(now: MonotonicInstant) {
        if self.token?.firstUse == nil { self.token?.firstUse = now }
    }

    // MARK: - A signature ends

    /// The token ordered is there. `false`: another one came first, and this one must be thrown away.
    ///
    /// - Parameters:
    ///   - isUsed: Whether a request will carry it at once.
    ///   - isShared: Others have it too, perhaps since it was signed: its use counts from there.
    mutating func signed(_ order: Order, now: MonotonicInstant, isUsed: Bool, isShared: Bool = false) -> Bool {
        guard order.generation > self.lastGeneration else { return false }
        self.fallback = self.token.flatMap { $0.isRefused ? nil : $0 }
        self.lastGeneration = order.generation
        self.token = Token(
            generation: order.generation,
            issuedAt: order.issuedAt,
            signedAt: order.orderedAt,
            firstUse: isShared ? order.orderedAt : isUsed ? now : nil,
            isForced: self.token?.isRefused ?? false
        )
        self.retryAt = nil
        self.silentUntil = nil
        self.retryDelay = TokenPolicy.firstRetry
        self.isClockSuspect = false
        return true
    }

    enum FailureDecision: Sendable, Hashable {
        /// The old token serves on; the next try comes later.
        case useCurrent
        /// There is no token. The next use tries again, at once unless the signer was silent; if nobody asks for a
        /// token, the next try is due at this instant.
        case fail(nextTry: MonotonicInstant)
    }

    /// The signature could not be made.
    ///
    /// - Parameter isSilent: Whether the signer did not answer in time. Each try then costs those who wait their time, so
    ///   that there is none before the next one is due.
    mutating func signingFailed(isSilent: Bool = false, now: MonotonicInstant, wallNow: Int64) -> FailureDecision {
        let next = now.advanced(by: self.retryDelay)
        self.retryAt = next
        self.silentUntil = isSilent ? next : nil
        self.retryDelay = min(self.retryDelay * 2, TokenPolicy.longestRetry)
        guard self.isUsable(now: now, wallNow: wallNow) else { return .fail(nextTry: next) }
        self.noteUse(now: now)
        return .useCurrent
    }

    /// Nobody signs any more: whether the current token serves all the same.
    mutating func signerIsGone(now: MonotonicInstant, wallNow: Int64) -> Bool {
        guard self.isUsable(now: now, wallNow: wallNow) else { return false }
        self.noteUse(now: now)
        return true
    }

    // MARK: - APNs refuses a token

    /// What a rejection says about the token that the request carried.
    enum Verdict: Sendable, Hashable {
        /// Nothing.
        case unrelated
        /// Its `iat` lies in the future. The next attempt carries the token before it (`isRestored`), or another one.
        case replaced(isRestored: Bool)
        /// It is too old.
        case expired(ExpiredDecision)
        /// This machine's clock is wrong: a new token would be refused as well.
        case clockSuspect
        /// APNs has seen too many tokens. Nothing that can wait is signed before this instant.
        case tooManyUpdates(until: MonotonicInstant, isNew: Bool)
    }

    /// APNs rejected a request that carried the token of this generation.
    ///
    /// - Parameter serverTime: the `date` of the response, in seconds since 1970, if there is one.
    mutating func rejected(
        _ reason: RejectionReason?,
        generation: Int,
        serverTime: Int64?,
        now: MonotonicInstant,
        wallNow: Int64
    ) -> Verdict {
        switch reason {
        case .some(.tooManyProviderTokenUpdates):
            let isNew = self.heldBackUntil(now: now) == nil
            return .tooManyUpdates(until: self.tooManyUpdates(now: now), isNew: isNew)
        case .some(.invalidProviderToken), .some(.expiredProviderToken):
            switch self.refusedFromFuture(generation: generation, serverTime: serverTime, now: now, wallNow: wallNow) {
            case .restored: return .replaced(isRestored: true)
            case .refresh: return .replaced(isRestored: false)
            case .clockSuspect: return .clockSuspect
            case .unrelated: break
            }
            guard reason == .expiredProviderToken else { return .unrelated }
            let decision = self.expired(generation: generation, now: now)
            return decision == .clockSuspect ? .clockSuspect : .expired(decision)
        default:
            return .unrelated
        }
    }

    /// Whether a rejection with this reason may concern the token.
    static func concernsToken(_ reason: RejectionReason?) -> Bool {
        reason == .invalidProviderToken || reason == .expiredProviderToken || reason == .tooManyProviderTokenUpdates
    }

    /// What to do with a push whose token APNs called expired.
    enum ExpiredDecision: Sendable, Hashable {
        /// A newer token is there already: resend with it.
        case alreadyReplaced
        /// The next use signs a new token: resend with that.
        case refresh
        /// A new token would be refused as well, because this machine's clock is wrong: do not resend, report it.
        case clockSuspect
        /// APNs has just complained of too many tokens: do not resend before this instant.
        case heldBack(until: MonotonicInstant)
    }

    /// APNs answered 403 `ExpiredProviderToken` to a request with the token of this generation.
    ///
    /// Each token is replaced once however many responses say so. One that was signed less than 60 s ago is not, nor one
    /// signed less than 20 minutes ago for the same reason: that would go on in a circle.
    mutating func expired(generation: Int, now: MonotonicInstant) -> ExpiredDecision {
        guard let token else { return .refresh }
        if generation != token.generation { return .alreadyReplaced }
        if token.isRefused { return .refresh }
        let age = token.signedAt.duration(to: now)
        if let heldBackUntil, now < heldBackUntil, age < TokenPolicy.usableAge {
            return .heldBack(until: heldBackUntil)
        }
        let shortestAge = token.isForced ? TokenPolicy.shortestUse : TokenPolicy.shortestForcedAge
        if age < shortestAge {
            self.isClockSuspect = true
            return .clockSuspect
        }
        self.token?.isRefused = true
        return .refresh
    }

    /// What to do with a push whose token APNs refused, if that is because of the token's `iat`.
    enum FutureDecision: Sendable, Hashable {
        /// The token before it is the current one again: resend with that.
        case restored
        /// The current token is another one, or the next use signs one: resend with that.
        case refresh
        /// This machine's clock is still ahead, or a new token has not helped: do not resend, report it.
        case clockSuspect
        /// The refusal has another reason.
        case unrelated
    }

    /// APNs refused a request with the token of this generation: 403 `InvalidProviderToken` or `ExpiredProviderToken`.
    ///
    /// A token is from the future if the wall clock was ahead when it was signed. APNs refuses it until its `iat` has
    /// come. The token before it serves on, if it still can. Otherwise one new token is signed, once the clock is right.
    ///
    /// - Parameter serverTime: The `date` of the response, in seconds since 1970. Nil: the present wall clock has to do.
    mutating func refusedFromFuture(
        generation: Int,
        serverTime: Int64?,
        now: MonotonicInstant,
        wallNow: Int64
    ) -> FutureDecision {
        guard let token else { return .unrelated }
        if generation == self.lastFromFuture { return .refresh }
        guard generation == token.generation, !token.isRefused,
            Self.wallAge(issuedAt: token.issuedAt, wallNow: serverTime ?? wallNow) < .zero - TokenPolicy.futureTolerance
        else { return .unrelated }
        if let fallback, fallback.signedAt.duration(to: now) < TokenPolicy.usableAge,
            Self.wallAge(issuedAt: fallback.issuedAt, wallNow: serverTime ?? wallNow)
                >= .zero - TokenPolicy.futureTolerance
        {
            self.lastFromFuture = generation
            self.token = fallback
            self.token?.ignoresWallClock = true
            self.fallback = nil
            // The clock may still be ahead: a refresh that can wait waits.
            self.retryAt = now.advanced(by: TokenPolicy.shortestUse)
            return .restored
        }
        let isAhead = serverTime.map { Self.wallAge(issuedAt: $0, wallNow: wallNow) > TokenPolicy.futureTolerance }
        if isAhead == true || token.isForced && token.signedAt.duration(to: now) < TokenPolicy.shortestUse {
            self.isClockSuspect = true
            return .clockSuspect
        }
        self.lastFromFuture = generation
        self.token?.isRefused = true
        return .refresh
    }

    /// APNs answered 429 `TooManyProviderTokenUpdates`: nothing is signed because of it, and for 20 minutes nothing that
    /// can wait.
    ///
    /// - Returns: The end of that time.
    mutating func tooManyUpdates(now: MonotonicInstant) -> MonotonicInstant {
        let until = max(self.heldBackUntil ?? now, now.advanced(by: TokenPolicy.holdBack))
        self.heldBackUntil = until
        return until
    }

    // MARK: - Looking at it

    /// Until when the current token may be used without asking, given that it was just used. An instant that has passed:
    /// not at all.
    func unaskedUntil(now: MonotonicInstant) -> MonotonicInstant {
        guard let token, !token.isRefused, let firstUse = token.firstUse else { return now }
        var until = min(
            now.advanced(by: TokenPolicy.wallCheckInterval),
            token.signedAt.advanced(by: TokenPolicy.usableAge)
        )
        let changes = [
            firstUse.advanced(by: TokenPolicy.shortestUse), firstUse.advanced(by: self.policy.refreshInterval),
            token.signedAt.advanced(by: TokenPolicy.refreshAge),
        ]
        for change in changes + [self.retryAt, self.heldBackUntil].compactMap(\.self) where change > now {
            until = min(until, change)
        }
        return until
    }

    /// The end of the time in which nothing is signed because of `TooManyProviderTokenUpdates`, if it lasts.
    func heldBackUntil(now: MonotonicInstant) -> MonotonicInstant? {
        self.isHeldBack(now: now) ? self.heldBackUntil : nil
    }

    /// Whether APNs has refused the current token.
    var isRefused: Bool { self.token?.isRefused ?? false }

    /// The current token's generation.
    var generation: Int? { self.token?.generation }

    /// The current token's age since it was ordered.
    func age(now: MonotonicInstant) -> Duration? {
        self.token?.signedAt.duration(to: now)
    }

    private func isHeldBack(now: MonotonicInstant) -> Bool {
        now < (self.heldBackUntil ?? now)
    }

    private static func wallAge(issuedAt: Int64, wallNow: Int64) -> Duration {
        let (difference, overflow) = wallNow.subtractingReportingOverflow(issuedAt)
        return .seconds(overflow ? (wallNow < issuedAt ? Int64.min : .max) : difference)
    }
}

extension Int {
    fileprivate var saturatingSuccessor: Int { self == .max ? self : self + 1 }
}
