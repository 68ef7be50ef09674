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
    /// How long a signature may take while the token in use still serves.
    static let longestRefresh = Duration.seconds(10)
    /// How often at least the wall clock is looked at.
    static let wallCheckInterval = Duration.seconds(30)

    let refreshInterval: Duration

    /// 50 minutes.
    static let standard = TokenPolicy(unchecked: .seconds(50 * 60))

    private init(unchecked interval: Duration) {
        refreshInterval = interval
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
        /// APNs has called it expired: useless, whatever its age.
        var isRefused = false
    }

    let policy: TokenPolicy
    private var token: Token?
    private var retryAt: MonotonicInstant?
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
    }

    /// A request is about to be sent. Asking again while a signature is under way gives the same order again.
    mutating func use(now: MonotonicInstant, wallNow: Int64) -> UseDecision {
        if needsSignature(now: now, wallNow: wallNow) {
            return .sign(
                Order(generation: (token?.generation ?? 0).saturatingSuccessor, issuedAt: wallNow, orderedAt: now)
            )
        }
        noteUse(now: now)
        return .useCurrent
    }

    private func needsSignature(now: MonotonicInstant, wallNow: Int64) -> Bool {
        guard let token, !token.isRefused else { return true }
        let age = token.signedAt.duration(to: now)
        let wallAge = Self.wallAge(issuedAt: token.issuedAt, wallNow: wallNow)
        guard isUsable(now: now, wallNow: wallNow) else { return true }

        let isFromTheFuture = wallAge < .zero - TokenPolicy.futureTolerance
        guard let firstUse = token.firstUse else {
            // APNs has not seen it: another one costs nothing. It must last its 20 minutes.
            let longestWait = TokenPolicy.refreshAge - TokenPolicy.shortestUse
            return isFromTheFuture || max(age, wallAge) >= longestWait
        }
        let use = firstUse.duration(to: now)
        let isDue =
            use >= policy.refreshInterval || max(age, wallAge) >= TokenPolicy.refreshAge || isFromTheFuture
        return isDue && use >= TokenPolicy.shortestUse && !isHeldBack(now: now) && now >= (retryAt ?? now)
    }

    /// Whether the current token may be sent, however much a new one is due.
    func isUsable(now: MonotonicInstant, wallNow: Int64) -> Bool {
        guard let token, !token.isRefused else { return false }
        let age = token.signedAt.duration(to: now)
        if age >= TokenPolicy.usableAge { return false }
        guard Self.wallAge(issuedAt: token.issuedAt, wallNow: wallNow) >= TokenPolicy.usableAge else { return true }
        // Old by the wall clock alone: the machine was suspended, or its clock was set. That may lead to a signature,
        // not to one a minute.
        return age < TokenPolicy.shortestForcedAge || isHeldBack(now: now)
    }

    private mutating func noteUse(now: MonotonicInstant) {
        if token?.firstUse == nil { token?.firstUse = now }
    }

    // MARK: - A signature ends

    /// The token ordered is there. `false`: another one came first, and this one must be thrown away.
    ///
    /// - Parameters:
    ///   - isUsed: Whether a request will carry it at once.
    ///   - isShared: Others have it too, perhaps since it was signed: its use counts from there.
    mutating func signed(_ order: Order, now: MonotonicInstant, isUsed: Bool, isShared: Bool = false) -> Bool {
        guard order.generation > (token?.generation ?? 0) else { return false }
        token = Token(
            generation: order.generation,
            issuedAt: order.issuedAt,
            signedAt: order.orderedAt,
            firstUse: isShared ? order.orderedAt : isUsed ? now : nil,
            isForced: token?.isRefused ?? false
        )
        retryAt = nil
        retryDelay = TokenPolicy.firstRetry
        isClockSuspect = false
        return true
    }

    enum FailureDecision: Sendable, Hashable {
        /// The old token serves on; the next try comes later.
        case useCurrent
        /// There is no token. The next use tries again at once.
        case fail
    }

    /// The signature could not be made.
    mutating func signingFailed(now: MonotonicInstant, wallNow: Int64) -> FailureDecision {
        guard isUsable(now: now, wallNow: wallNow) else { return .fail }
        retryAt = now.advanced(by: retryDelay)
        retryDelay = min(retryDelay * 2, TokenPolicy.longestRetry)
        noteUse(now: now)
        return .useCurrent
    }

    /// Nobody signs any more: whether the current token serves all the same.
    mutating func signerIsGone(now: MonotonicInstant, wallNow: Int64) -> FailureDecision {
        guard isUsable(now: now, wallNow: wallNow) else { return .fail }
        noteUse(now: now)
        return .useCurrent
    }

    // MARK: - APNs refuses a token

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
    /// Each token is replaced once however many answers say so. One that was signed less than 60 s ago is not, nor one
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
            isClockSuspect = true
            return .clockSuspect
        }
        self.token?.isRefused = true
        return .refresh
    }

    /// APNs answered 429 `TooManyProviderTokenUpdates`: nothing is signed because of it, and for 20 minutes nothing that
    /// can wait.
    ///
    /// - Returns: The end of that time.
    mutating func tooManyUpdates(now: MonotonicInstant) -> MonotonicInstant {
        let until = max(heldBackUntil ?? now, now.advanced(by: TokenPolicy.holdBack))
        heldBackUntil = until
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
            firstUse.advanced(by: TokenPolicy.shortestUse), firstUse.advanced(by: policy.refreshInterval),
            token.signedAt.advanced(by: TokenPolicy.refreshAge),
        ]
        for change in changes + [retryAt, heldBackUntil].compactMap(\.self) where change > now {
            until = min(until, change)
        }
        return until
    }

    /// The end of the time in which nothing is signed because of `TooManyProviderTokenUpdates`, if it lasts.
    func heldBackUntil(now: MonotonicInstant) -> MonotonicInstant? {
        isHeldBack(now: now) ? heldBackUntil : nil
    }

    /// Whether APNs has refused the current token.
    var isRefused: Bool { token?.isRefused ?? false }

    /// The current token's age since it was ordered.
    func age(now: MonotonicInstant) -> Duration? {
        token?.signedAt.duration(to: now)
    }

    private func isHeldBack(now: MonotonicInstant) -> Bool {
        now < (heldBackUntil ?? now)
    }

    private static func wallAge(issuedAt: Int64, wallNow: Int64) -> Duration {
        let (difference, overflow) = wallNow.subtractingReportingOverflow(issuedAt)
        return .seconds(overflow ? (wallNow < issuedAt ? Int64.min : .max) : difference)
    }
}

extension Int {
    fileprivate var saturatingSuccessor: Int { self == .max ? self : self + 1 }
}
