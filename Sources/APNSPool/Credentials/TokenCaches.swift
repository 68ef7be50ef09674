import SupervisedPool

/// The provider tokens of a client's keys. An authentication that is replaced by one with the same key, or that is
/// restored later, keeps its token: APNs counts a key's tokens and refuses those that follow each other too fast.
struct TokenCaches: Sendable {
    /// How many keys are remembered.
    static let limit = 4

    private let clock: any MonotonicClock
    private let wallClock: @Sendable () -> Int64
    private let version: SendRouteVersion
    private let renewals: TeamRenewals
    private var caches: [(signer: ProviderTokenSigner, cache: ProviderTokenCache)] = []

    init(_ configuration: APNSClientConfiguration, version: SendRouteVersion) {
        self.clock = configuration.clock
        self.wallClock = configuration.wallClock
        self.version = version
        self.renewals = configuration.teamRenewals ?? TeamRenewals()
    }

    /// Returns the cache of this key, or a new one for an unknown key. Signers that may have different keys share
    /// nothing.
    ///
    /// - Parameter current: The signer in use, which is kept however many others were tried since.
    mutating func cache(
        of resolved: ResolvedAuthentication,
        keeping current: ProviderTokenSigner? = nil
    ) -> ProviderTokenCache {
        let interval = resolved.authentication.tokenRefreshInterval
        let signer = resolved.signer
        if let index = self.caches.firstIndex(where: { signer?.hasSameKey(as: $0.signer) == true }) {
            let known = self.caches.remove(at: index)
            known.cache.setRefreshInterval(interval)
            self.caches.append(known)
            return known.cache
        }
        let cache = ProviderTokenCache(
            refreshInterval: interval,
            clock: self.clock,
            wallClock: self.wallClock,
            version: self.version,
            renewals: signer.map { (self.renewals, $0.identifiers) }
        )
        guard let signer else { return cache }
        if self.caches.count == Self.limit {
            let unused = self.caches.firstIndex { current?.hasSameKey(as: $0.signer) != true }
            self.caches.remove(at: unused ?? 0)
        }
        self.caches.append((signer, cache))
        return cache
    }
}
