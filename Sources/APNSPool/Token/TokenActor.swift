import SupervisedPool
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Signs the provider token of one key, one signature at a time, in its own task: callers only wait, so that a cancelled
/// one disturbs nobody. What is decided, the cache's machine decides; what is known, the cache knows.
///
/// A supervised child. A restarted one is a new object with the same cache.
actor TokenActor {
    private typealias Waiter = CheckedContinuation<Result<ProviderToken, TokenError>, Never>

    private struct Waiting {
        var lastID = 0
        var waiters: [Int: Waiter] = [:]
        var hasEnded = false
    }

    private let signer: ProviderTokenSigner
    private let source: (any ProviderTokenSource)?
    private let cache: ProviderTokenCache
    private let clock: any MonotonicClock
    private let wallClock: @Sendable () -> Int64
    /// Outside the actor's isolation, so that a cancellation handler can reach it.
    private let waiting = Mutex(Waiting())
    /// "Somebody waits." One signal stands for any number of waiters.
    private let signals: AsyncStream<Void>
    private let signal: AsyncStream<Void>.Continuation
    private var hasRun = false

    /// - Parameters:
    ///   - signer: Makes the tokens.
    ///   - source: Where they are shared with other processes; nil: they are not.
    ///   - cache: Outlives this actor.
    ///   - clock: Measures the tokens' age.
    ///   - wallClock: Seconds since 1970, for `iat`.
    init(
        signer: ProviderTokenSigner,
        source: (any ProviderTokenSource)? = nil,
        cache: ProviderTokenCache,
        clock: any MonotonicClock,
        wallClock: @escaping @Sendable () -> Int64 = TokenActor.systemWallClock
    ) {
        self.signer = signer
        self.source = source
        self.cache = cache
        self.clock = clock
        self.wallClock = wallClock
        (signals, signal) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// The system's wall clock in whole seconds since 1970.
    static let systemWallClock: @Sendable () -> Int64 = { Int64(time(nil)) }

    // MARK: - For requests

    /// A token for a request that is about to be sent. Waits only while one is being signed.
    ///
    /// - Returns: The token; or `signingFailed`, `stopped` or `cancelled`.
    nonisolated func token() async -> Result<ProviderToken, TokenError> {
        switch cache.next(now: clock.now, wallNow: wallClock()) {
        case .use(let token): .success(token)
        case .sign: await nextSignature()
        }
    }

    /// APNs answered `ExpiredProviderToken` to a request with the token of this generation. To resend, when the answer
    /// allows it, ask for ``token()`` again.
    @discardableResult
    nonisolated func expired(generation: Int) -> TokenStateMachine.ExpiredDecision {
        cache.expired(generation: generation, now: clock.now)
    }

    /// APNs answered `TooManyProviderTokenUpdates`.
    ///
    /// - Returns: Until when nothing is signed that can wait.
    @discardableResult
    nonisolated func tooManyUpdates() -> MonotonicInstant {
        cache.tooManyUpdates(now: clock.now).until
    }

    private nonisolated func nextSignature() async -> Result<ProviderToken, TokenError> {
        let id = waiting.withLock { waiting in
            waiting.lastID &+= 1
            return waiting.lastID
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { (waiter: Waiter) in
                let refusal = waiting.withLock { waiting -> TokenError? in
                    if waiting.hasEnded { return .stopped }
                    // Before the waiter is in the table the handler finds nothing; then this finds the cancellation.
                    if Task.isCancelled { return .cancelled }
                    waiting.waiters[id] = waiter
                    return nil
                }
                switch refusal {
                case nil: signal.yield()
                case TokenError.stopped?: waiter.resume(returning: resultWithoutSigner())
                case let refusal?: waiter.resume(returning: .failure(refusal))
                }
            }
        } onCancel: {
            let waiter = waiting.withLock { $0.waiters.removeValue(forKey: id) }
            waiter?.resume(returning: .failure(.cancelled))
        }
    }

    private nonisolated func resultWithoutSigner() -> Result<ProviderToken, TokenError> {
        cache.signerIsGone(now: clock.now, wallNow: wallClock()).map(Result.success) ?? .failure(.stopped)
    }

    // MARK: - The actor's life

    /// Serves until it is asked to stop or cancelled. When it ends, everybody who waits is resumed.
    ///
    /// - Throws: `CancellationError`; `TokenError` when it is called a second time. A failed signature is no reason.
    func run(_ context: ChildContext) async throws {
        guard !hasRun else { throw TokenError(.stopped, "A token actor runs once.") }
        hasRun = true
        defer { end() }
        context.onShutdown { [signal] in signal.finish() }
        context.started()
        for await _ in signals {
            await serve()
        }
        try Task.checkCancellation()
    }

    /// Answers all who wait, with one signature at most.
    private func serve() async {
        // All may have been cancelled; then nothing is signed.
        guard waiting.withLock({ !$0.waiters.isEmpty }) else { return }
        switch cache.next(now: clock.now, wallNow: wallClock()) {
        case .use(let token):
            resume(takeWaiters(), with: .success(token))
        case .sign(let order):
            let current = cache.inspect(now: clock.now, wallNow: wallClock())
            // Nobody shall wait long for a new token while the old one serves.
            let limit = current.isUsable ? TokenPolicy.longestRefresh : nil
            let signed = await within(limit) { await self.newToken(order, current) }
            // Cancelled with its signer: end() answers.
            if Task.isCancelled { return }
            switch signed ?? .failure(.tooSlow) {
            case .success(let shared):
                let waiters = takeWaiters()
                let token = install(shared, order, isUsed: !waiters.isEmpty)
                resume(waiters, with: .success(token))
            case .failure(let error):
                let old = cache.signingFailed(error, now: clock.now, wallNow: wallClock())
                resume(takeWaiters(), with: old.map(Result.success) ?? .failure(error))
            }
        }
    }

    private nonisolated func newToken(
        _ order: TokenStateMachine.Order,
        _ current: ProviderTokenCache.Current
    ) async -> Result<SharedProviderToken, TokenError> {
        let request = ProviderTokenRequest(
            signer: signer,
            now: order.issuedAt,
            refreshAge: min(current.refreshInterval, TokenPolicy.refreshAge),
            refused: current.isRefused ? current.jwt : nil
        )
        do {
            guard let source else { return .success(try await request.sign()) }
            let token = try await source.token(for: request)
            try request.check(token, isReplacing: current.jwt)
            return .success(token)
        } catch let error as TokenError {
            return .failure(error)
        } catch {
            return .failure(TokenError(.signingFailed, "The shared provider token could not be had: \(error)"))
        }
    }

    private func install(
        _ shared: SharedProviderToken,
        _ order: TokenStateMachine.Order,
        isUsed: Bool
    ) -> ProviderToken {
        var order = order
        if source != nil {
            // As old as it is, whoever signed it.
            let age = max(order.issuedAt.subtractingReportingOverflow(shared.issuedAt).partialValue, 0)
            order.orderedAt = order.orderedAt.advanced(by: .zero - .seconds(age))
            order.issuedAt = shared.issuedAt
        }
        return cache.install(shared.jwt, for: order, now: clock.now, isUsed: isUsed, isShared: source != nil)
    }

    /// What `body` answers, or nil when it takes longer than `limit`; it is then cancelled, and not waited for.
    private func within<Value: Sendable>(
        _ limit: Duration?,
        _ body: @escaping @Sendable () async -> Value
    ) async -> Value? {
        guard let limit else { return await body() }
        let (answers, answer) = AsyncStream<Value?>.makeStream(bufferingPolicy: .bufferingOldest(1))
        let work = Task { answer.yield(await body()) }
        let end = clock.now.advanced(by: limit)
        let timer = Task { [clock] in
            try await clock.sleep(until: end)
            answer.yield(nil)
        }
        defer {
            work.cancel()
            timer.cancel()
        }
        for await value in answers { return value }
        return nil
    }

    private func end() {
        signal.finish()
        let waiters = waiting.withLock { waiting in
            waiting.hasEnded = true
            return Self.take(from: &waiting)
        }
        guard !waiters.isEmpty else { return }
        resume(waiters, with: resultWithoutSigner())
    }

    private func takeWaiters() -> [Waiter] {
        waiting.withLock { Self.take(from: &$0) }
    }

    private static func take(from waiting: inout Waiting) -> [Waiter] {
        defer { waiting.waiters = [:] }
        return Array(waiting.waiters.values)
    }

    /// Without the lock: what a resumed task does is its own affair.
    private func resume(_ waiters: [Waiter], with result: Result<ProviderToken, TokenError>) {
        for waiter in waiters { waiter.resume(returning: result) }
    }
}
