// This folder: the client as a whole. Its configuration and status, the tree of its actors, and how it starts, drains
// and ends. The way of a push is in Sending, what a credential owns is in Credentials.

public import APNSModel
public import Logging
public import NIOCore
public import ServiceLifecycle
public import SupervisedPool
import Synchronization

/// Sends pushes to Apple devices through a supervised pool of connections to APNs.
///
/// Create it once, run it in one of three ways, and send from anywhere:
/// - `run()` in a `ServiceGroup` of swift-service-lifecycle, or in a task of your own;
/// - `withAPNSClient { client in … }`, which runs it around a body;
/// - `start()` … `shutdown(within:)`, for frameworks that own the process.
///
/// Every push ends in exactly one outcome, by its deadline: `deliver` returns it and never throws; `send` returns the
/// receipt of an accepted push and throws a `PushError` otherwise.
public final class APNSClient: PushSender, Service {
    let runtime: ClientRuntime
    private let task = Mutex<Task<Void, any Error>?>(nil)

    /// - Throws: `APNSConfigurationError` naming the setting: a key that cannot be used, trust roots that cannot be
    ///   read, a number out of its limits.
    public init(configuration: APNSClientConfiguration) throws(APNSConfigurationError) {
        self.runtime = try ClientRuntime(configuration)
    }

    /// The same with the settings that most servers need.
    public convenience init(
        authentication: APNSAuthentication,
        environment: APNSEnvironment = .production,
        pool: APNSClientConfiguration.Pool = .init(),
        logger: Logger = Logger(label: "apns-pool"),
        eventLoopGroup: (any EventLoopGroup)? = nil
    ) throws(APNSConfigurationError) {
        try self.init(
            configuration: APNSClientConfiguration(
                authentication: authentication,
                environment: environment,
                pool: pool,
                logger: logger,
                eventLoopGroup: eventLoopGroup
            )
        )
    }

    deinit {
        guard let task = self.task.withLock({ $0 }), self.runtime.lifecycle.current != .stopped else { return }
        self.runtime.logger.error("an APNSClient was dropped while it ran: call shutdown() first; its pushes fail now")
        task.cancel()
    }

    // MARK: Life

    /// Runs the client until it is shut down, its service group shuts down gracefully, or the task is cancelled
    /// (which drains nothing). Returns after the last outcome was delivered.
    ///
    /// - Throws: `APNSConfigurationError` (`alreadyRunning`) when called twice; `SupervisorError` when the supervision
    ///   tree gives up and `onEscalation` is `throw`.
    public func run() async throws {
        let runtime = self.runtime
        try await withGracefulShutdownHandler {
            try await runtime.run()
        } onGracefulShutdown: {
            runtime.lifecycle.beginDrain(within: runtime.live.settings.timeouts.drain)
        }
    }

    /// Starts the client in a task of its own and returns. Pushes may be sent at once.
    ///
    /// - Throws: `APNSConfigurationError` (`alreadyRunning`).
    public func start() async throws(APNSConfigurationError) {
        let runtime = self.runtime
        let isFirst = self.task.withLock { task in
            guard task == nil, runtime.lifecycle.current == .notStarted else { return false }
            task = Task { try await runtime.run() }
            return true
        }
        guard isFirst else {
            throw APNSConfigurationError(
                .alreadyRunning,
                setting: "start",
                message: "this client runs already, or has ended: a client runs once"
            )
        }
        await runtime.lifecycle.serving.wait()
    }

    /// Takes no further pushes, lets those in flight and in the queue finish, and ends the client. Returns after the last
    /// outcome was delivered; what became of the pushes is in `status.drain` and in the log.
    ///
    /// - Parameter time: how long that may take; what is left then ends as `notSent` (queued) or `unknown` (written).
    ///   Nil: `timeouts.drain`.
    public func shutdown(within time: Duration? = nil) async {
        let runtime = self.runtime
        runtime.lifecycle.beginDrain(within: time ?? runtime.live.settings.timeouts.drain)
        // Not to be cut short by the caller's cancellation: what runs must have ended when this returns.
        await Task { _ = await runtime.lifecycle.stopped.wait() }.value
        if let task = self.task.withLock({ $0 }) { _ = await task.result }
        // A client that never ran has readers and spans, too.
        self.runtime.monitor.finish()
    }

    // MARK: Sending

    /// Sends what was encoded and checked before.
    public func deliver(
        _ prepared: PreparedPush,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async -> PushOutcome {
        await PushSend(prepared, to: token, options, dated: nil, self.runtime.sending).run()
    }

    /// Encodes, checks and sends; what cannot be prepared ends as `validation`, not sent. With
    /// `DeliveryOptions.supersedes`, a timestamp that is missing is filled in so that it rises.
    public func deliver(
        _ notification: consuming PushNotification,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async -> PushOutcome {
        if options.supersedes != nil, notification.takesTimestamp {
            return await self.deliverDated(notification, to: token, options: options)
        }
        switch self.prepared(notification, to: token, options.apnsID) {
        case .success(let push): return await PushSend(push, to: token, options, dated: nil, self.runtime.sending).run()
        case .failure(let error): return .failed(error)
        }
    }

    /// Not inlined: its temporary values would lie in the task's memory for as long as the push takes. The notification
    /// ends here: what it holds serves the next one before it has left the core's cache.
    @inline(never)
    private func prepared(
        _ notification: consuming PushNotification,
        to token: DeviceToken,
        _ id: APNSID?
    ) -> Result<PreparedPush, PushError> {
        do throws(ValidationError) {
            return .success(try notification.prepared())
        } catch {
            return .failure(self.refused(notification, to: token, id, error))
        }
    }

    /// The error of a notification that cannot be prepared.
    private func refused(
        _ notification: borrowing PushNotification,
        to token: DeviceToken,
        _ id: APNSID?,
        _ error: ValidationError
    ) -> PushError {
        let refusal = PushError.validation(error, apnsID: id)
        self.runtime.monitor.tracing.refused(refusal, topic: notification.topic, to: token)
        self.runtime.monitor.pushes.count(.failed(refusal), notification.pushType)
        return refusal
    }

    @inline(never)
    private func deliverDated(
        _ notification: PushNotification,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async -> PushOutcome {
        let now = self.runtime.configuration.wallClock()
        let push: PreparedPush
        do {
            push = try notification.prepared(timestamp: now)
        } catch {
            return .failed(self.refused(notification, to: token, options.apnsID, error))
        }
        let dated = SupersedeQueue.Dated(timestamp: now) { timestamp throws(ValidationError) in
            try notification.prepared(timestamp: timestamp)
        }
        return await PushSend(push, to: token, options, dated: dated, self.runtime.sending).run()
    }

    // MARK: Connections

    /// Opens connections before they are needed, one at a time, and returns when they are ready. Those above `pool.size`
    /// are closed again after `pool.idleTimeout` without work.
    ///
    /// - Parameters:
    ///   - connections: how many are to be ready, with those that already are; at most `pool.size + pool.maxOverflow`.
    ///   - time: how long to wait. Connects go on after it.
    /// - Throws: `PoolError` when they are not ready by then, or it is known before that they will not be.
    public func prewarm(_ connections: Int, within time: Duration = .seconds(30)) async throws(PoolError) {
        let deadline = self.runtime.clock.now.advanced(by: time)
        guard await self.runtime.sending.waitUntilRunning(deadline) else {
            throw PoolError(code: .notRunning, status: await self.runtime.pool.status())
        }
        try await self.runtime.pool.prewarm(connections, deadline: deadline)
    }

    /// Has every connection replaced by a fresh one, one after another, `pool.connectSpacing` apart, while pushes go on:
    /// after a change in the network, for example. Does not wait; `status` shows the connections' ages.
    public func replaceConnections() {
        self.runtime.pool.replaceAll()
        self.runtime.credentials.latest.management.pool.replaceAll()
    }

    // MARK: Looking

    /// The device tokens that APNs answers with 410, from now on, whatever call has sent to them: what to remove from a
    /// database. The outcomes carry the same. The stream ends when the client has stopped.
    ///
    /// - Parameter bufferingNewest: how many wait for a slow reader; older ones are dropped, and the stream's
    ///   `missedCount` counts them.
    public func invalidTokens(bufferingNewest: Int) -> EventStream<InvalidToken> {
        self.runtime.monitor.invalidTokens.stream(bufferingNewest: bufferingNewest)
    }

    /// The same with room for 10,000.
    public var invalidTokens: EventStream<InvalidToken> { self.invalidTokens(bufferingNewest: 10_000) }
}

/// Runs a client around `body` and shuts it down afterwards, draining for at most `timeouts.drain`.
///
/// - Throws: `APNSConfigurationError`, or what `body` throws.
public func withAPNSClient<Result: Sendable>(
    configuration: APNSClientConfiguration,
    _ body: (APNSClient) async throws -> Result
) async throws -> Result {
    let client = try APNSClient(configuration: configuration)
    try await client.start()
    do {
        let result = try await body(client)
        await client.shutdown()
        return result
    } catch {
        await client.shutdown()
        throw error
    }
}
