import SupervisedPool

/// A single token for all clients of a group with the same key. It lives as long as any app with that key.
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

/// The token sources of a group's apps, one for each key. A source is removed with the last app that has its key.
struct ProcessTokenSources: Sendable {
    private var sources: [SigningKey: (source: ProcessTokenSource, apps: Int)] = [:]

    var count: Int { self.sources.count }

    /// Returns the source for one more app. `release` must follow.
    ///
    /// - Parameter key: Nil if the public key is not known: the app then shares its tokens with no other app.
    mutating func retain(_ key: SigningKey?, clock: any MonotonicClock) -> ProcessTokenSource {
        guard let key else { return ProcessTokenSource(clock: clock) }
        let known = self.sources[key] ?? (ProcessTokenSource(clock: clock), 0)
        self.sources[key] = (known.source, known.apps + 1)
        return known.source
    }

    /// The app was removed, or has another key.
    mutating func release(_ key: SigningKey?) {
        guard let key, let known = self.sources[key] else { return }
        self.sources[key] = known.apps > 1 ? (known.source, known.apps - 1) : nil
    }
}
