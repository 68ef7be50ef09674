import SupervisedPool

/// A single token for all clients of a group with the same key.
///
/// Tokens are distinguished by the public key, because the ids of key and team are not secret: an app that claims
/// another app's ids must not use that app's token. An app whose public key is not known has its own source.
actor ProcessTokenSource: ProviderTokenSource {
    private struct Call {
        var number: Int
        var began: MonotonicInstant
        var task: Task<SharedProviderToken, any Error>
    }

    private let clock: any MonotonicClock
    /// The token of each key. There is more than one key while a key file is being changed.
    private var tokens: [SigningKey?: SharedProviderToken] = [:]
    private var calls: [SigningKey?: Call] = [:]
    private var lastNumber = 0

    init(clock: any MonotonicClock) {
        self.clock = clock
    }

    func token(for request: ProviderTokenRequest) async throws -> SharedProviderToken {
        let key = request.key
        if let token = self.tokens[key], request.serves(token) { return token }
        if let call = self.calls[key] {
            if call.began.duration(to: self.clock.now) < TokenPolicy.longestWait { return try await call.task.value }
            // The signer hangs, but another call may succeed.
            call.task.cancel()
        }
        // A separate task: the client that requested the token first may stop before the others receive it.
        let task = Task { @concurrent in try await request.sign() }
        self.lastNumber &+= 1
        let number = self.lastNumber
        self.calls[key] = Call(number: number, began: self.clock.now, task: task)
        defer { if self.calls[key]?.number == number { self.calls[key] = nil } }
        let token = try await task.value
        self.tokens = self.tokens.filter { $0.value.issuedAt > request.oldestUsable }
        // An abandoned call may complete after a later one.
        if let newer = self.tokens[key], newer.issuedAt >= token.issuedAt, request.serves(newer) { return newer }
        self.tokens[key] = token
        return token
    }
}

/// The token sources of a group's apps, one for each key. A source outlives the last app that has its key by an hour: APNs
/// refuses a new token of a key that follows the previous one too fast, so an app that comes back needs the old one.
struct ProcessTokenSources: Sendable {
    private struct Entry {
        let source: ProcessTokenSource
        var apps = 0
        /// When the last app with the key was removed; nil while there is one.
        var releasedAt: MonotonicInstant?
    }

    /// How long a source without an app is kept: no provider token is valid for longer.
    static let memory = Duration.seconds(60 * 60)
    /// How many sources without an app are kept.
    static let mostReleased = 1000

    private var entries: [SigningKey: Entry] = [:]

    /// The number of keys that apps have.
    var count: Int { self.entries.values.count { $0.apps > 0 } }

    /// The number of sources, those without an app included.
    var kept: Int { self.entries.count }

    /// Returns the source for one more app. `release` must follow.
    ///
    /// - Parameter key: Nil if the public key is not known: the app then shares its tokens with no other app.
    mutating func retain(_ key: SigningKey?, clock: any MonotonicClock) -> ProcessTokenSource {
        guard let key else { return ProcessTokenSource(clock: clock) }
        self.forget(now: clock.now)
        var entry = self.entries[key] ?? Entry(source: ProcessTokenSource(clock: clock))
        entry.apps += 1
        entry.releasedAt = nil
        self.entries[key] = entry
        return entry.source
    }

    /// The app was removed, or has another key.
    mutating func release(_ key: SigningKey?, now: MonotonicInstant) {
        guard let key, var entry = self.entries[key] else { return }
        entry.apps -= 1
        if entry.apps == 0 { entry.releasedAt = now }
        self.entries[key] = entry
        self.forget(now: now)
    }

    /// Removes the sources whose tokens nobody can use any more, and the oldest ones beyond the limit.
    private mutating func forget(now: MonotonicInstant) {
        var released = self.entries.compactMap { key, entry in entry.releasedAt.map { (key: key, at: $0) } }
        guard !released.isEmpty else { return }
        released.sort { $0.at < $1.at }
        let surplus = released.count - Self.mostReleased
        for (index, entry) in released.enumerated() where index < surplus || entry.at.duration(to: now) >= Self.memory {
            self.entries[entry.key] = nil
        }
    }
}
