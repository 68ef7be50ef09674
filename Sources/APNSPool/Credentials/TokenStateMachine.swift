import APNSModel
import SupervisedPool

/// The time limits of a provider token. Apple, "Establishing a token-based connection to APNs": refresh a token no more
/// than once every 20 minutes and no less than once every 60 minutes.
struct TokenPolicy: Sendable, Hashable {
    static let refreshLimits = Duration.seconds(20 * 60)...Duration.seconds(60 * 60)

    /// APNs responds with 429 `TooManyProviderTokenUpdates` to tokens that follow each other faster. It seems to count
    /// from when it first sees a token, not from `iat`.
    static let shortestUse = Duration.seconds(20 * 60)
    /// Tokens of this age are replaced whatever the interval: at 60 minutes APNs responds with 403
    /// `ExpiredProviderToken`.
    static let refreshAge = Duration.seconds(55 * 60)
    /// Tokens of this age are no longer used, even if no new one is available.
    static let usableAge = Duration.seconds(58 * 60)
    /// If a token is refused as expired within this time after its signature, the clock is wrong.
    static let shortestReplaceableAge = Duration.seconds(60)
    /// How far an `iat` may be ahead of the wall clock before it counts as wrong.
    static let futureTolerance = Duration.seconds(60)
    /// How long new signatures are held back after `TooManyProviderTokenUpdates`.
    static let holdBack = Duration.seconds(20 * 60)
    /// The waits after failed signatures.
    static let retries = Backoff(.doubling(), minimum: .seconds(5), maximum: .seconds(60))
    /// How long a request waits for a signature before it gets the old token or an error.
    static let longestWait = Duration.seconds(10)
    /// How much longer a user's token source may take before its call is abandoned. It is not called again meanwhile.
    static let sourcePatience = Duration.seconds(20)
    /// The longest time between two checks of the wall clock.
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
                message: "\(refreshInterval) is not between 20 and 60 minutes, the limits that APNs sets. "
                    + "Leave it out for the default of 50 minutes."
            )
        }
        self.init(unchecked: refreshInterval)
    }
}

/// Decides whether the current provider token is usable and when a new one is signed.
///
/// Pure: it knows tokens by their generation (1, 2, …) and time by the values that it is given: `now` on a monotonic
/// clock, and `wallNow` in seconds since 1970. The wall clock can jump. If it alone says that a token in use is old,
/// the token is therefore replaced only within limits (`isUsable`).
///
/// ```
///            sign                 use
///   (none) ────────▶ unused ───────────▶ in use ─── expired(generation) ──▶ refused
///                      ▲  ▲                │                                   │
///                      │  └─── due ────────┘                                   │
///                      └────────────────── sign ◀──────────────────────────────┘
/// ```
/// The previous token is kept while it is usable. If the wall clock is ahead when a token is signed, the token's `iat`
/// is in the future. If APNs refuses such a token, the previous one is restored.
struct TokenStateMachine: Sendable {
    /// An order for a signature, made by ``use(now:wallNow:)``.
    struct Order: Sendable, Hashable {
        /// The new token's generation.
        var generation: Int
        /// Its `iat`.
        var issuedAt: Int64
        /// The instant of the order.
        var orderedAt: MonotonicInstant
    }

    private struct Token {
        var generation: Int
        var issuedAt: Int64
        var signedAt: MonotonicInstant
        /// `nil` until a request carries it, as far as this machine knows.
        var firstUse: MonotonicInstant?
        /// Whether it was signed because APNs refused the previous token.
        var isForced: Bool
        /// Whether APNs refused it, as expired or because its `iat` was in the future: unusable at any age.
        var isRefused = false
        /// Whether it was restored after a token from the future. The wall clock has been wrong, so the token's age is
        /// measured by the monotonic clock alone.
        var ignoresWallClock = false
    }

    var policy: TokenPolicy
    /// When the current token is replaced, if that is not after the interval, because of another key of the team.
    var renewAt: MonotonicInstant?
    /// No refresh that can wait is made before this instant, because another key of the team was renewed.
    var waitsUntil: MonotonicInstant?
    private var token: Token?
    /// The previous token, unless APNs has refused it.
    private var fallback: Token?
    private var lastGeneration = 0
    /// The generation of the last token that APNs refused because its `iat` was in the future.
    private var lastFromFuture: Int?
    /// The signer is not called before this instant, because the last call did not return in time.
    private var silentUntil: MonotonicInstant?
    /// No refresh that can wait is made before this instant. Set when a signature failed, or when the previous token
    /// was restored.
    private(set) var retryAt: MonotonicInstant?
    private var retries = TokenPolicy.retries
    private var heldBackUntil: MonotonicInstant?
    private(set) var isClockSuspect = false

    init(policy: TokenPolicy) {
        self.policy = policy
    }

    /// How long the current token is used.
    var refreshInterval: Duration {
        guard let renewAt, let token else { return self.policy.refreshInterval }
        return (token.firstUse ?? token.signedAt).duration(to: renewAt)
    }

    // MARK: - A request needs a token

    enum UseDecision: Sendable, Hashable {
        /// The current token is usable. This counts as its use.
        case useCurrent
        /// A new token is needed, and requests wait for it. If signing fails, `signingFailed` decides whether they use
        /// the current token.
        case sign(Order)
        /// There is no token, and the signer is not called before this instant, because its last call did not return
        /// in time.
        case unavailable(until: MonotonicInstant)
    }

    /// Decides on the token of a request that is about to be sent. Repeated calls during a signature return orders for
    /// the same generation.
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
            // APNs has not seen this token, so another one costs nothing. Replace it if 20 minutes of use would take it
            // beyond the refresh age.
            let longestUnusedAge = TokenPolicy.refreshAge - TokenPolicy.shortestUse
            return isFromTheFuture || max(age, wallAge) >= longestUnusedAge
        }
        let use = firstUse.duration(to: now)
        let isOld = max(age, wallAge) >= TokenPolicy.refreshAge
        let isDue = isOld || isFromTheFuture || use >= self.refreshInterval && now >= (self.waitsUntil ?? now)
        return isDue && use >= TokenPolicy.shortestUse && !self.isHeldBack(now: now) && now >= (self.retryAt ?? now)
    }

    /// Whether the current token may be sent, even if a new one is due.
    func isUsable(now: MonotonicInstant, wallNow: Int64) -> Bool {
        guard let token, !token.isRefused else { return false }
        let age = token.signedAt.duration(to: now)
        if age >= TokenPolicy.usableAge { return false }
        if token.ignoresWallClock { return true }
        guard Self.wallAge(issuedAt: token.issuedAt, wallNow: wallNow) >= TokenPolicy.usableAge else { return true }
        // Only the wall clock says that it is old: the machine was suspended, or its clock was set. The token is then
        // replaced, unless it is younger than 60 s or signatures are held back: a jumping clock must not cause one
        // signature after another.
        return age < TokenPolicy.shortestReplaceableAge || self.isHeldBack(now: now)
    }

    private mutating func noteUse(now: MonotonicInstant) {
        if self.token?.firstUse == nil { self.token?.firstUse = now }
    }

    // MARK: - A signature ends

    /// Records the token of an order. `false`: another token was installed first, and this one must be discarded.
    ///
    /// - Parameters:
    ///   - isUsed: Whether a request will carry it at once.
    ///   - isShared: Whether others have it too, perhaps since it was signed. Its use then counts from the signature.
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
        self.retries.reset()
        self.isClockSuspect = false
        self.renewAt = nil
        return true
    }

    enum FailureDecision: Sendable, Hashable {
        /// The old token stays in use; the signer is called again later.
        case useCurrent
        /// There is no token. The next request calls the signer again: at once, or later if the signer did not return.
        /// If no request needs a token earlier, the next call is due at this instant.
        case fail(nextTry: MonotonicInstant)
    }

    /// Records a failed signature.
    ///
    /// - Parameter isSilent: Whether the signer did not return in time. Each further call would make requests wait, so
    ///   requests cause no call before `retryAt`.
    mutating func signingFailed(isSilent: Bool = false, now: MonotonicInstant, wallNow: Int64) -> FailureDecision {
        let next = now.advanced(by: self.retries.next())
        self.retryAt = next
        self.silentUntil = isSilent ? next : nil
        guard self.isUsable(now: now, wallNow: wallNow) else { return .fail(nextTry: next) }
        self.noteUse(now: now)
        return .useCurrent
    }

    /// Call this when no signature can be made: there is no signer, or its call is late. Counts as a use.
    ///
    /// - Returns: Whether the current token is still usable.
    mutating func useWithoutSigning(now: MonotonicInstant, wallNow: Int64) -> Bool {
        guard self.isUsable(now: now, wallNow: wallNow) else { return false }
        self.noteUse(now: now)
        return true
    }

    // MARK: - APNs refuses a token

    /// The consequence of a rejection for the token that the request carried.
    enum Verdict: Sendable, Hashable {
        /// The rejection does not concern the token.
        case unrelated
        /// Its `iat` is in the future. The next attempt carries the previous token (`isRestored`), or another one.
        case replaced(isRestored: Bool)
        /// The token is too old.
        case expired(ExpiredDecision)
        /// This machine's clock is wrong: APNs would refuse a new token too.
        case clockSuspect
        /// APNs has seen too many tokens. Signatures that can wait are not made before this instant.
        case tooManyUpdates(until: MonotonicInstant, isNew: Bool)
    }

    /// Evaluates a rejection of a request that carried the token of this generation.
    ///
    /// - Parameter serverTime: The `date` of the response, in seconds since 1970, if present.
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

    /// The handling of a push whose token APNs rejected as expired.
    enum ExpiredDecision: Sendable, Hashable {
        /// A newer token is already installed: resend with it.
        case alreadyReplaced
        /// The next use signs a new token: resend with it.
        case refresh
        /// This machine's clock is wrong, so APNs would refuse a new token too: do not resend, report it.
        case clockSuspect
        /// APNs has just reported too many token updates: do not resend before this instant.
        case heldBack(until: MonotonicInstant)
    }

    /// APNs responded with 403 `ExpiredProviderToken` to a request with the token of this generation.
    ///
    /// Each token is replaced once, however many responses reject it. A token is not replaced if it was signed less
    /// than 60 s ago, or if it was itself signed to replace a refused token less than 20 minutes ago: replacing it
    /// would lead to an endless loop.
    mutating func expired(generation: Int, now: MonotonicInstant) -> ExpiredDecision {
        guard let token else { return .refresh }
        if generation != token.generation { return .alreadyReplaced }
        if token.isRefused { return .refresh }
        let age = token.signedAt.duration(to: now)
        if let heldBackUntil, now < heldBackUntil, age < TokenPolicy.usableAge {
            return .heldBack(until: heldBackUntil)
        }
        let shortestAge = token.isForced ? TokenPolicy.shortestUse : TokenPolicy.shortestReplaceableAge
        if age < shortestAge {
            self.isClockSuspect = true
            return .clockSuspect
        }
        self.token?.isRefused = true
        return .refresh
    }

    /// The handling of a push whose token APNs may have refused because of its `iat`.
    enum FutureDecision: Sendable, Hashable {
        /// The previous token is the current one again: resend with it.
        case restored
        /// Another token is current, or the next use signs one: resend with it.
        case refresh
        /// This machine's clock is still ahead, or a new token did not help: do not resend, report it.
        case clockSuspect
        /// The refusal has another cause.
        case unrelated
    }

    /// Handles 403 `InvalidProviderToken` or `ExpiredProviderToken` for a request with the token of this generation.
    ///
    /// A token is from the future if the wall clock was ahead when it was signed. APNs refuses it until the time of its
    /// `iat`. The previous token is restored if it is still usable. Otherwise one new token is signed, once the clock
    /// is right.
    ///
    /// - Parameter serverTime: The `date` of the response, in seconds since 1970. Nil: the current wall clock is used
    ///   instead.
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
            // The clock may still be ahead, so postpone refreshes that can wait.
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

    /// Handles 429 `TooManyProviderTokenUpdates`: no signature is made because of it, and signatures that can wait are
    /// held back for 20 minutes.
    ///
    /// - Returns: The end of that period.
    mutating func tooManyUpdates(now: MonotonicInstant) -> MonotonicInstant {
        let until = max(self.heldBackUntil ?? now, now.advanced(by: TokenPolicy.holdBack))
        self.heldBackUntil = until
        return until
    }

    // MARK: - State

    /// The instant until which the current token may be used without further checks, given that it was just used. If
    /// this is `now`, it may not.
    func uncheckedUntil(now: MonotonicInstant) -> MonotonicInstant {
        guard let token, !token.isRefused, let firstUse = token.firstUse else { return now }
        var until = min(
            now.advanced(by: TokenPolicy.wallCheckInterval),
            token.signedAt.advanced(by: TokenPolicy.usableAge)
        )
        let changes = [
            firstUse.advanced(by: TokenPolicy.shortestUse), firstUse.advanced(by: self.refreshInterval),
            token.signedAt.advanced(by: TokenPolicy.refreshAge),
        ]
        for change in changes + [self.retryAt, self.heldBackUntil].compactMap(\.self) where change > now {
            until = min(until, change)
        }
        return until
    }

    /// The end of the period in which signatures are held back because of `TooManyProviderTokenUpdates`; nil outside
    /// it.
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
