/// The provider tokens of a client's keys. An authentication that is replaced by one with the same key, or that is
/// restored later, keeps its token: APNs counts a key's tokens and refuses those that follow each other too fast.
struct TokenCaches: Sendable {
    /// How many keys are remembered.
    static let limit = 4

    private let version: SendRouteVersion
    private let renewals: TeamRenewals
    private var caches: [(signer: ProviderTokenSigner, cache: ProviderTokenCache)] = []

    init(version: SendRouteVersion = SendRouteVersion(), renewals: TeamRenewals = TeamRenewals()) {
        self.version = version
        self.renewals = renewals
    }

    /// Returns the cache of this key, or a new one for an unknown key. Signers that may have different keys share
    /// nothing.
    ///
    /// - Parameter current: The signer in use, which is kept however many others were tried since.
    mutating func cache(
        of resolved: ResolvedAuthentication,
        keeping current: ProviderTokenSigner? = nil
    ) -> ProviderTokenCache {
        guard let signer = resolved.signer else {
            return ProviderTokenCache(policy: resolved.policy, version: self.version)
        }
        let known = self.caches.firstIndex { $0.signer.hasSameKey(as: signer) }.map { self.caches.remove(at: $0).cache }
        known?.setPolicy(resolved.policy)
        let cache =
            known
            ?? ProviderTokenCache(
                policy: resolved.policy,
                version: self.version,
                renewals: (self.renewals, signer.identifiers)
            )
        if self.caches.count == Self.limit {
            let unused = self.caches.firstIndex { current?.hasSameKey(as: $0.signer) != true }
            self.caches.remove(at: unused ?? 0)
        }
        self.caches.append((signer, cache))
        return cache
    }
}
