import SupervisedPool
import Synchronization

/// The provider tokens of the keys of a client, or of all clients of a group. APNs counts a key's tokens, and refuses
/// those that follow each other too fast. So clients with the same key share one token, and a key that comes back within
/// the validity of its last token still has it.
final class TokenCaches: Sendable {
    /// How many tokens that no client uses are kept.
    static let mostUnused = 1000

    private struct Entry {
        let signer: ProviderTokenSigner
        var cache: ProviderTokenCache
    }

    private let clock: any MonotonicClock
    private let wallClock: @Sendable () -> Int64
    /// In the order of the last request.
    private let entries = Mutex<[Entry]>([])

    init(clock: any MonotonicClock, wallClock: @escaping @Sendable () -> Int64) {
        self.clock = clock
        self.wallClock = wallClock
    }

    /// Returns the cache of this key, or a new one for an unknown key. Signers that may have different keys share
    /// nothing.
    func cache(of resolved: ResolvedAuthentication) -> ProviderTokenCache {
        let interval = resolved.authentication.tokenRefreshInterval
        let signer = resolved.signer
        return self.entries.withLock { entries in
            if let index = entries.firstIndex(where: { signer?.hasSameKey(as: $0.signer) == true }) {
                let known = entries.remove(at: index)
                known.cache.setRefreshInterval(interval)
                entries.append(known)
                return known.cache
            }
            self.forget(&entries)
            let cache = ProviderTokenCache(refreshInterval: interval, clock: self.clock, wallClock: self.wallClock)
            if let signer { entries.append(Entry(signer: signer, cache: cache)) }
            return cache
        }
    }

    /// The number of keys whose tokens are kept.
    var count: Int { self.entries.withLock { $0.count } }

    /// Removes the unused caches without a token that APNs still remembers, and the oldest ones beyond the limit.
    private func forget(_ entries: inout [Entry]) {
        var unused: [Int] = []
        for index in entries.indices where isKnownUniquelyReferenced(&entries[index].cache) { unused.append(index) }
        let surplus = unused.count - Self.mostUnused
        let removed = unused.enumerated().filter { $0.offset < surplus || !entries[$0.element].cache.isRemembered }
        for index in removed.map(\.element).reversed() { entries.remove(at: index) }
    }
}
