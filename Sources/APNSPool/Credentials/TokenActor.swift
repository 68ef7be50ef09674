import APNSBasics
import SupervisedPool
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Obtains signatures for the provider token of one key. It makes one call at a time, each in a separate task; only an
/// abandoned call may still run beside the next one. Callers only wait, so a cancelled caller affects no other. The
/// cache's machine decides when a token is needed; `SignerCallMachine` decides how to handle a slow call.
///
/// A signer and a token source are user code. Nothing awaits the tasks that run them: a call that never returns delays
/// neither pushes beyond `TokenPolicy.longestWait` nor the end of this actor.
///
/// A supervised child. After a restart it is a new object with the same cache.
actor TokenActor {
    private typealias Waiter = OneShot<Result<ProviderToken, TokenError>>

    private struct Waiting {
        var waiters: [ObjectIdentifier: Waiter] = [:]
        var isSignalled = false
        var hasEnded = false
    }

    private enum Event: Sendable {
        /// At least one request is waiting. One event represents any number of waiters.
        case wanted
        case completed(call: Int, Result<SharedProviderToken, TokenError>)
        case timer(SignerCallMachine.Timer)
    }

    private let signer: ProviderTokenSigner
    private let source: (any ProviderTokenSource)?
    private let cache: ProviderTokenCache
    private let clock: any MonotonicClock
    private let wallClock: @Sendable () -> Int64
    private let onResult: @Sendable (Result<Void, TokenError>, _ isChange: Bool) -> Void
    /// Outside the actor's isolation, so that a cancellation handler can reach it.
    private let waiting = Mutex(Waiting())
    private let events: AsyncStream<Event>
    private let event: AsyncStream<Event>.Continuation
    private var machine: SignerCallMachine
    /// The calls that are under way or were abandoned, with their orders.
    private var calls: [Int: (order: TokenStateMachine.Order, task: Task<Void, Never>)] = [:]
    private var timers: [SignerCallMachine.Timer.Kind: Task<Void, Never>] = [:]
    private var hasFailed = false
    private var hasRun = false

    /// - Parameters:
    ///   - signer: Makes the tokens.
    ///   - source: Shares the tokens with others; nil: they are not shared.
    ///   - cache: Outlives this actor.
    ///   - clock: Measures the tokens' age and how long a call takes.
    ///   - wallClock: Seconds since 1970, for `iat`.
    ///   - onResult: Receives the result of each signature, and whether it differs from the previous one. Must return
    ///     at once.
    init(
        signer: ProviderTokenSigner,
        source: (any ProviderTokenSource)? = nil,
        cache: ProviderTokenCache,
        clock: any MonotonicClock,
        wallClock: @escaping @Sendable () -> Int64 = TokenActor.systemWallClock,
        onResult: @escaping @Sendable (Result<Void, TokenError>, _ isChange: Bool) -> Void = { _, _ in }
    ) {
        self.signer = signer
        self.source = source
        self.cache = cache
        self.clock = clock
        self.wallClock = wallClock
        self.onResult = onResult
        // A plain signer and `ProcessTokenSource` allow a new call before the previous one returns; other sources do
        // not.
        let mayOverlap = source == nil || source is ProcessTokenSource
        self.machine = SignerCallMachine(patience: mayOverlap ? .zero : TokenPolicy.sourcePatience)
        (self.events, self.event) = AsyncStream.makeStream()
    }

    /// The system's wall clock in whole seconds since 1970.
    static let systemWallClock: @Sendable () -> Int64 = { Int64(time(nil)) }

    // MARK: - For requests

    /// Returns a token for a request that is about to be sent. Waits only while a token is being signed, and at most
    /// `TokenPolicy.longestWait`.
    ///
    /// - Returns: The token; or `signingFailed`, `stopped` or `cancelled`.
    nonisolated func token() async -> Result<ProviderToken, TokenError> {
        switch self.cache.next(now: self.clock.now, wallNow: self.wallClock()) {
        case .use(let token): .success(token)
        case .sign: await self.nextSignature()
        case .unavailable(let error, _): .failure(error)
        }
    }

    private nonisolated func nextSignature() async -> Result<ProviderToken, TokenError> {
        if Task.isCancelled { return .failure(.cancelled) }
        let waiter = Waiter()
        let id = ObjectIdentifier(waiter)
        let (hasEnded, isFirst) = self.waiting.withLock { waiting in
            if waiting.hasEnded { return (true, false) }
            waiting.waiters[id] = waiter
            defer { waiting.isSignalled = true }
            return (false, !waiting.isSignalled)
        }
        if hasEnded { return self.resultWithoutSigner() }
        if isFirst { self.event.yield(.wanted) }
        return await waiter.wait {
            self.waiting.withLock { $0.waiters[id] = nil }
            waiter.give(.failure(.cancelled))
        }
    }

    private nonisolated func resultWithoutSigner() -> Result<ProviderToken, TokenError> {
        self.cache.useWithoutSigning(now: self.clock.now, wallNow: self.wallClock()).map(Result.success)
            ?? .failure(.stopped)
    }

    // MARK: - The actor's life

    /// Serves requests until it is shut down or cancelled. When it ends, all waiting requests are resumed. Calls of the
    /// signer that are under way are cancelled without waiting for them.
    ///
    /// - Throws: `CancellationError`; `TokenError` when it is called a second time. A failed signature does not end it.
    func run(_ context: ChildContext) async throws {
        guard !self.hasRun else { throw TokenError(.stopped, "A token actor runs once.") }
        self.hasRun = true
        defer { self.end() }
        context.onShutdown { [event] in event.finish() }
        context.started()
        // Before the first push, so that the client is ready only when it can send.
        if self.cache.isWaitingForFirst, !context.isShuttingDown { self.serve(self.clock.now) }
        for await event in self.events {
            if context.isShuttingDown { break }
            self.handle(event)
        }
        try Task.checkCancellation()
    }

    private func handle(_ event: Event) {
        let now = self.clock.now
        switch event {
        case .wanted:
            // All waiters may have been cancelled; then nothing is signed.
            let isWanted = self.waiting.withLock { waiting in
                waiting.isSignalled = false
                return !waiting.waiters.isEmpty
            }
            if isWanted { self.serve(now) }
        case .completed(let number, let result):
            guard let call = self.calls.removeValue(forKey: number) else { return }
            self.completed(number, call.order, result, now)
        case .timer(let timer):
            self.perform(self.machine.fired(timer, now: now), now)
        }
    }

    /// Resumes all waiters, at once or when a call has ended.
    private func serve(_ now: MonotonicInstant) {
        switch self.cache.next(now: now, wallNow: self.wallClock()) {
        case .use(let token):
            self.resume(self.takeWaiters(), with: .success(token))
        case .unavailable(let error, let until):
            self.resume(self.takeWaiters(), with: .failure(error))
            self.perform(self.machine.tryAgain(at: until), now)
        case .sign(let order):
            self.perform(self.machine.wanted(order, now: now), now)
        }
    }

    private func perform(_ actions: [SignerCallMachine.Action], _ now: MonotonicInstant) {
        for action in actions {
            switch action {
            case .call(let number, let order):
                self.call(number, order, now)
            case .cancel(let number):
                self.calls[number]?.task.cancel()
            case .fail:
                self.failed(.tooSlow, isSilent: true, now)
            case .refuse:
                self.resume(
                    self.takeWaiters(),
                    with: self.cache.useWithoutSigning(now: now, wallNow: self.wallClock()).map(Result.success)
                        ?? .failure(.tooSlow)
                )
            case .arm(let timer):
                self.arm(timer)
            case .disarm(let kind):
                self.timers.removeValue(forKey: kind)?.cancel()
            case .tryAgain:
                // Even without a waiter, a client without a token should recover before the next push.
                guard !self.cache.inspect(now: now, wallNow: self.wallClock()).isUsable else { break }
                self.serve(now)
            }
        }
    }

    private func completed(
        _ number: Int,
        _ order: TokenStateMachine.Order,
        _ result: Result<SharedProviderToken, TokenError>,
        _ now: MonotonicInstant
    ) {
        let isCurrent = self.machine.isCurrent(number)
        switch result {
        case .success(let shared):
            // Also uses the token of an abandoned call, unless another token was installed first.
            let token = self.install(shared, order, isUsed: self.waiting.withLock { !$0.waiters.isEmpty })
            let isInstalled = token.jwt == shared.jwt
            self.perform(self.machine.completed(number, hasToken: isInstalled), now)
            guard isInstalled || isCurrent else { return }
            self.timers.removeValue(forKey: .retry)?.cancel()
            self.resume(self.takeWaiters(), with: .success(token))
            self.onResult(.success(()), self.hasFailed)
            self.hasFailed = false
        case .failure(let error):
            self.perform(self.machine.completed(number, hasToken: false), now)
            if isCurrent { self.failed(error, isSilent: false, now) }
        }
    }

    private func failed(_ error: TokenError, isSilent: Bool, _ now: MonotonicInstant) {
        switch self.cache.signingFailed(error, isSilent: isSilent, now: now, wallNow: self.wallClock()) {
        case .serves(let old):
            self.resume(self.takeWaiters(), with: .success(old))
        case .noToken(let nextTry):
            self.resume(self.takeWaiters(), with: .failure(error))
            self.perform(self.machine.tryAgain(at: nextTry), now)
        }
        self.onResult(.failure(error), !self.hasFailed)
        self.hasFailed = true
    }

    private func call(_ number: Int, _ order: TokenStateMachine.Order, _ now: MonotonicInstant) {
        let current = self.cache.inspect(now: now, wallNow: self.wallClock())
        let request = ProviderTokenRequest(
            signer: self.signer,
            now: order.issuedAt,
            refreshAge: min(current.refreshInterval, TokenPolicy.refreshAge),
            refused: current.isRefused ? current.jwt : nil
        )
        let task = Task<Void, Never> { @concurrent [event, source] in
            let result = await Self.newToken(request, source, isReplacing: current.jwt)
            event.yield(.completed(call: number, result))
        }
        self.calls[number] = (order, task)
    }

    private static func newToken(
        _ request: ProviderTokenRequest,
        _ source: (any ProviderTokenSource)?,
        isReplacing current: String?
    ) async -> Result<SharedProviderToken, TokenError> {
        do {
            guard let source else { return .success(try await request.sign()) }
            let token = try await source.token(for: request)
            try request.check(token, isReplacing: current, checksSignature: !(source is ProcessTokenSource))
            return .success(token)
        } catch let error as TokenError {
            return .failure(error)
        } catch {
            return .failure(TokenError(.signingFailed, "The shared provider token is not available: \(error)"))
        }
    }

    private func install(
        _ shared: SharedProviderToken,
        _ order: TokenStateMachine.Order,
        isUsed: Bool
    ) -> ProviderToken {
        var order = order
        if self.source != nil {
            // Counts the token's age from its signature, whichever process signed it.
            let age = max(order.issuedAt.subtractingReportingOverflow(shared.issuedAt).partialValue, 0)
            order.orderedAt = order.orderedAt.advanced(by: .zero - .seconds(age))
            order.issuedAt = shared.issuedAt
        }
        return self.cache.install(
            shared.jwt,
            for: order,
            now: self.clock.now,
            isUsed: isUsed,
            isShared: self.source != nil
        )
    }

    private func arm(_ timer: SignerCallMachine.Timer) {
        self.timers[timer.kind]?.cancel()
        self.timers[timer.kind] = Task { @concurrent [event, clock] in
            do { try await clock.sleep(until: timer.at) } catch { return }
            event.yield(.timer(timer))
        }
    }

    private func end() {
        self.event.finish()
        for call in self.calls.values { call.task.cancel() }
        for timer in self.timers.values { timer.cancel() }
        let waiters = self.waiting.withLock { waiting in
            waiting.hasEnded = true
            return Self.take(from: &waiting)
        }
        guard !waiters.isEmpty else { return }
        self.resume(waiters, with: self.resultWithoutSigner())
    }

    private func takeWaiters() -> [Waiter] {
        self.waiting.withLock { Self.take(from: &$0) }
    }

    private static func take(from waiting: inout Waiting) -> [Waiter] {
        defer { waiting.waiters = [:] }
        return Array(waiting.waiters.values)
    }

    /// Call without holding the lock: a resumed task may do anything.
    private func resume(_ waiters: [Waiter], with result: Result<ProviderToken, TokenError>) {
        for waiter in waiters { waiter.give(result) }
    }
}
