import Crypto
public import HTTPTypes
import Synchronization

/// A sender that has proved that it has the private key.
public struct VAPIDSender: Sendable, Hashable {
    /// Its public key: an uncompressed point of P-256, 65 bytes.
    public let key: [UInt8]
    /// How to reach its operator: a `mailto:` or `https:` URL; nil if it does not say.
    public let subject: String?
}

/// Verifies which sender a request comes from: RFC 8292. A token that was verified is remembered until it expires, because
/// senders use one for many requests.
public final class VAPIDVerifier: Sendable {
    private struct Entry {
        var sender: VAPIDSender
        var expiry: Double
    }

    private struct Cache {
        var entries: [SHA256.Digest: Entry] = [:]
        /// The keys of the entries, the oldest first.
        var order: [SHA256.Digest] = []
    }

    /// The longest lifetime of a token, in seconds (RFC 8292, section 2).
    private static let maxLifetime = 86_400.0

    private let origins: Set<String>
    private let clockSkew: Double
    private let capacity: Int
    private let cache = Mutex(Cache())

    /// - Parameters:
    ///   - origins: the origins of the push resources as senders see them, such as `https://push.example.com`. Without the
    ///     default port.
    ///   - clockSkew: how far the sender's clock may be ahead or behind, in seconds. Some senders use the longest lifetime
    ///     exactly, so 0 would refuse them.
    ///   - capacity: the number of tokens that are remembered.
    public init(origins: Set<String>, clockSkew: Int = 300, capacity: Int = 10_000) {
        self.origins = Set(origins.map(Self.origin))
        self.clockSkew = Double(max(0, clockSkew))
        self.capacity = max(1, capacity)
    }

    /// Verifies a request.
    ///
    /// - Parameters:
    ///   - headers: its header fields.
    ///   - now: the time, in seconds since 1970.
    /// - Returns: the sender; nil if the request identifies none.
    /// - Throws: `WebPushError.Code.vapidInvalid`.
    public func sender(_ headers: HTTPFields, now: Double) throws(WebPushError) -> VAPIDSender? {
        guard let token = try VAPIDToken(headers) else { return nil }
        var hash = SHA256()
        hash.update(data: token.key)
        hash.update(data: Array(token.text.utf8))
        let digest = hash.finalize()
        let known = self.cache.withLock { $0.entries[digest] }
        let entry: Entry
        if let known {
            entry = known
        } else {
            let claims = try token.verified()
            guard claims.audiences.contains(where: { self.origins.contains(Self.origin($0)) }) else {
                throw VAPIDToken.invalid("the claim aud must be \(self.origins.sorted().joined(separator: " or "))")
            }
            entry = Entry(sender: VAPIDSender(key: token.key, subject: claims.subject), expiry: claims.expiry)
        }
        guard entry.expiry > now - self.clockSkew else { throw VAPIDToken.invalid("the token has expired") }
        guard entry.expiry <= now + Self.maxLifetime + self.clockSkew else {
            throw VAPIDToken.invalid("the claim exp must be at most 24 hours from now")
        }
        if known == nil { self.remember(entry, digest) }
        return entry.sender
    }

    /// The number of tokens that are remembered.
    var rememberedCount: Int { self.cache.withLock { $0.entries.count } }

    private func remember(_ entry: Entry, _ digest: SHA256.Digest) {
        self.cache.withLock { cache in
            guard cache.entries.updateValue(entry, forKey: digest) == nil else { return }
            cache.order.append(digest)
            guard cache.order.count > self.capacity else { return }
            // Many at once, because removing the first element moves the others.
            let removed = max(1, self.capacity / 10)
            for digest in cache.order.prefix(removed) { cache.entries[digest] = nil }
            cache.order.removeFirst(removed)
        }
    }

    /// The origin in lower case, without a slash at its end and without the default port.
    private static func origin(_ text: String) -> String {
        var origin = text.lowercased()
        while origin.hasSuffix("/") { origin.removeLast() }
        for (scheme, port) in [("https://", ":443"), ("http://", ":80")] where origin.hasPrefix(scheme) {
            if origin.hasSuffix(port) { origin.removeLast(port.count) }
        }
        return origin
    }
}
