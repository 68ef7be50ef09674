/// The provider tokens of a client's keys. An authentication that is replaced by one with the same key, or that is
/// restored later, keeps its token: APNs counts a key's tokens and refuses those that follow each other too fast.
struct TokenCaches: Sendable {
    /// How many keys are remembered.
    static let limit = 4

    private let version: SendRouteVersion
    private var caches: [(key: SigningKey, cache: ProviderTokenCache)] = []

    init(version: SendRouteVersion = SendRouteVersion()) {
        self.version = version
    }

    /// Returns the cache of this key, or a new one for an unknown key. Keys with an unknown public half share nothing.
    ///
    /// - Parameter current: The key in use, which is kept however many others were tried since.
    mutating func cache(of resolved: ResolvedAuthentication, keeping current: SigningKey? = nil) -> ProviderTokenCache {
        let known = self.caches.firstIndex { $0.key == resolved.signer?.key }.map { self.caches.remove(at: $0).cache }
        known?.setPolicy(resolved.policy)
        let cache = known ?? ProviderTokenCache(policy: resolved.policy, version: self.version)
        if let key = resolved.signer?.key {
            if self.caches.count == Self.limit {
                self.caches.remove(at: self.caches.firstIndex { $0.key != current } ?? 0)
            }
            self.caches.append((key, cache))
        }
        return cache
    }
}
