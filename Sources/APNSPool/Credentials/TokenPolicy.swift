import SupervisedPool

/// The time limits of provider tokens and of the calls that make them.
///
/// Apple, "Establishing a token-based connection to APNs": refresh a token no more than once every 20 minutes and no less
/// than once every 60 minutes.
enum TokenPolicy {
    /// The intervals that a client may be given.
    static let refreshLimits = Duration.seconds(20 * 60)...Duration.seconds(60 * 60)
    /// How long a token is used, from its first use, unless a client is given another interval.
    static let refreshInterval = Duration.seconds(50 * 60)
    /// APNs responds with 429 `TooManyProviderTokenUpdates` to tokens that follow each other faster. It seems to count
    /// from when it first sees a token, not from `iat` (pushy#931).
    static let shortestUse = Duration.seconds(20 * 60)
    /// Tokens of this age are replaced whatever the interval: at 60 minutes APNs responds with 403
    /// `ExpiredProviderToken`.
    static let refreshAge = Duration.seconds(55 * 60)
    /// Tokens of this age are no longer used, even if no new one is available.
    static let usableMinutes = 58
    static let usableAge = Duration.seconds(usableMinutes * 60)
    /// If a token is refused as expired within this time after its signature, the clock is wrong.
    static let shortestReplaceableAge = Duration.seconds(60)
    /// How far an `iat` may be ahead of the wall clock before it counts as wrong.
    static let futureTolerance = Duration.seconds(60)
    /// How long a token is remembered that nobody uses: no token is valid for longer.
    static let memory = Duration.seconds(60 * 60)
    /// How long new signatures are held back after `TooManyProviderTokenUpdates`.
    static let holdBack = Duration.seconds(20 * 60)
    /// The longest time between two checks of the wall clock.
    static let wallCheckInterval = Duration.seconds(30)

    /// The waits after failed calls.
    static let retries = Backoff(.doubling(), minimum: .seconds(5), maximum: .seconds(60))
    /// How long a request waits for a signature before it gets the old token or an error.
    static let longestWait = Duration.seconds(10)
    /// How long a call may take before it is abandoned and cancelled. No other call is made meanwhile.
    static let longestCall = Duration.seconds(30)
    /// The limit of abandoned calls that have not returned. At this limit, no call is made until one of them returns.
    /// Otherwise a signer that blocks its thread would take up one thread after another.
    static let abandonedLimit = 4
}
