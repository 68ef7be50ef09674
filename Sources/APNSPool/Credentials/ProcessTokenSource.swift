import SupervisedPool

/// One token for all clients of a group that have the same key. It lives as long as an app with that key.
///
/// Tokens are told apart by the public key: the ids of key and team are not secret, and an app that names another app's
/// ids must not be sent with that app's token. Where the public key is not known, an app has a source of its own.
actor ProcessTokenSource: ProviderTokenSource {
    private struct Call {
        var number: Int
        var began: MonotonicInstant
        var task: Task<SharedProviderToken, any Error>
    }

    private let clock: any MonotonicClock
    /// More than one while a key file is changed.
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
            // The signer hangs: another call may not.
            call.task.cancel()
        }
        // In a task of its own: the client that asked first may stop before the others have their token.
        let task = Task { @concurrent in try await request.sign() }
        self.lastNumber &+= 1
        let number = self.lastNumber
        self.calls[key] = Call(number: number, began: self.clock.now, task: task)
        defer { if self.calls[key]?.number == number { self.calls[key] = nil } }
        let token = try await task.value
        self.tokens = self.tokens.filter { $0.value.issuedAt > request.oldestUsable }
        // A call that was given up may answer after a later one.
        if let newer = self.tokens[key], newer.issuedAt >= token.issuedAt, request.serves(newer) { return newer }
        self.tokens[key] = token
        return token
    }
}

/// The token sources of a group's apps, one for each key. A source goes with the last app that has its key.
struct ProcessTokenSources: Sendable {
    private var sources: [SigningKey: (source: ProcessTokenSource, apps: Int)] = [:]

    var count: Int { self.sources.count }

    /// The source for one more app. `release` must follow.
    ///
    /// - Parameter key: Nil where the public key is not known: the app shares its tokens with no other one.
    mutating func retain(_ key: SigningKey?, clock: any MonotonicClock) -> ProcessTokenSource {
        guard let key else { return ProcessTokenSource(clock: clock) }
        let known = self.sources[key] ?? (ProcessTokenSource(clock: clock), 0)
        self.sources[key] = (known.source, known.apps + 1)
        return known.source
    }

    /// The app is gone, or has another key.
    mutating func release(_ key: SigningKey?) {
        guard let key, let known = self.sources[key] else { return }
        self.sources[key] = known.apps > 1 ? (known.source, known.apps - 1) : nil
    }
}
