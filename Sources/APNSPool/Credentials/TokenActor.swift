import SupervisedPool

/// Refreshes the provider token of one key: makes the calls of the signer, or of the token source, that the state machine
/// of its ``ProviderTokenCache`` decides on. Requests wait at the cache, so a cancelled request affects no other.
///
/// A signer and a token source are user code. Each call runs in a task that nothing awaits: a call that never returns
/// delays neither pushes beyond `TokenPolicy.longestWait` nor the end of this actor.
///
/// A supervised child. After a restart it is a new object with the same cache. The cache has an actor for each client of
/// a group that uses the key, and for each session when a key replaces itself; only one of them makes a call.
actor TokenActor {
    private let signer: ProviderTokenSigner
    private let source: (any ProviderTokenSource)?
    private let cache: ProviderTokenCache
    private let clock: any MonotonicClock
    private let user: ProviderTokenCache.User
    private var call: (made: TokenStateMachine.Call, task: Task<Void, Never>)?
    private var hasRun = false

    /// - Parameters:
    ///   - signer: Makes the tokens.
    ///   - source: Shares the tokens with others; nil: they are not shared.
    ///   - cache: Outlives this actor.
    ///   - clock: Measures how long a call takes.
    ///   - user: Is notified of the changes of the cache while the actor runs.
    init(
        signer: ProviderTokenSigner,
        source: (any ProviderTokenSource)? = nil,
        cache: ProviderTokenCache,
        clock: any MonotonicClock,
        user: ProviderTokenCache.User
    ) {
        self.signer = signer
        self.source = source
        self.cache = cache
        self.clock = clock
        self.user = user
    }

    /// Makes calls until it is shut down or cancelled. Then the call under way is cancelled without waiting for it.
    ///
    /// - Throws: `CancellationError`; `TokenError` when it is called a second time. A failed signature does not end it.
    func run(_ context: ChildContext) async throws {
        guard !self.hasRun else { throw TokenError("A token actor runs once.") }
        self.hasRun = true
        self.cache.add(self.user)
        defer { self.end() }
        context.onShutdown { [cache] in cache.wake() }
        context.started()
        while !Task.isCancelled {
            let work = self.cache.work
            if context.isShuttingDown { return }
            let step = self.cache.step()
            if let call, call.made.number != step.current {
                call.task.cancel()
                self.call = nil
            }
            if let call = step.newCall { self.begin(call) }
            if let instant = step.wakeAt {
                _ = await work.wait(until: instant, clock: self.clock)
            } else {
                await work.wait()
            }
        }
        throw CancellationError()
    }

    private func begin(_ call: TokenStateMachine.Call) {
        let request = ProviderTokenRequest(
            signer: self.signer,
            now: call.issuedAt,
            refreshAge: call.refreshAge,
            refused: call.isForced ? call.replaced?.jwt : nil
        )
        let task = Task<Void, Never> { @concurrent [cache, source] in
            let result = await Self.newToken(request, source, isReplacing: call.replaced?.jwt)
            cache.completed(call, result, isShared: source != nil)
        }
        self.call = (call, task)
    }

    private static func newToken(
        _ request: ProviderTokenRequest,
        _ source: (any ProviderTokenSource)?,
        isReplacing current: String?
    ) async -> Result<SharedProviderToken, TokenError> {
        do {
            guard let source else { return .success(try await request.sign()) }
            let token = try await source.token(for: request)
            try request.check(token, isReplacing: current)
            return .success(token)
        } catch let error as TokenError {
            return .failure(error)
        } catch {
            return .failure(TokenError("The shared provider token is not available: \(error)"))
        }
    }

    private func end() {
        self.cache.remove(self.user)
        guard let call else { return }
        call.task.cancel()
        self.cache.abandon(call.made)
    }
}
