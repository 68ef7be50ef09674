// This folder: the client as a whole. It contains the configuration, the supervision tree, and how a client starts,
// drains and stops. The steps of a single push are in Sending. Everything that belongs to one credential is in
// Credentials. The status is in Observability.

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
/// ```swift
/// let client = try APNSClient(configuration: APNSClientConfiguration(settings: [.environment()]))
/// try await client.start()
/// let notification = PushNotification(topic: "com.grasscove.Fern", alert: "Hey There")
/// let outcome = await client.deliver(notification, to: deviceToken)
/// if let error = outcome.error { print(error) }
/// await client.shutdown()
/// ```
///
/// Every push ends in exactly one outcome, no later than its deadline. `deliver` returns the outcome and never throws.
/// `send` returns the receipt of an accepted push and throws a `PushError` otherwise.
public final class APNSClient: PushSender, Service {
    let runtime: ClientRuntime
    /// The topic of notifications that name none: ``APNSClientConfiguration/defaultTopic``.
    public let defaultTopic: String?
    private let task = Mutex<Task<Void, any Error>?>(nil)

    /// Creates a client with a full configuration.
    ///
    /// - Throws: `APNSConfigurationError`, which names the invalid setting: an unusable key, unreadable trust roots, or
    ///   a number out of range.
    public init(configuration: APNSClientConfiguration) throws(APNSConfigurationError) {
        self.runtime = try ClientRuntime(configuration)
        self.defaultTopic = configuration.defaultTopic
    }

    /// Creates a client from the settings that most servers need. All other settings have their defaults.
    ///
    /// - Throws: `APNSConfigurationError`, as `init(configuration:)`.
    public convenience init(
        authentication: APNSAuthentication,
        environment: APNSEnvironment = .production,
        defaultTopic: String? = nil,
        pool: APNSClientConfiguration.Pool = .init(),
        logger: Logger = Logger(label: "apns-pool"),
        eventLoopGroup: (any EventLoopGroup)? = nil
    ) throws(APNSConfigurationError) {
        try self.init(
            configuration: APNSClientConfiguration(
                authentication: authentication,
                environment: environment,
                defaultTopic: defaultTopic,
                pool: pool,
                logger: logger,
                eventLoopGroup: eventLoopGroup
            )
        )
    }

    deinit {
        guard let task = self.task.withLock({ $0 }), self.runtime.lifecycle.current != .stopped else { return }
        self.runtime.logger.error("an APNSClient was released while running, so its pushes fail: call shutdown() first")
        task.cancel()
    }

    // MARK: Lifecycle

    /// Runs the client until one of these happens: `shutdown(within:)` is called, its service group shuts down
    /// gracefully, or the task is cancelled. Cancellation skips the drain. Returns after the last outcome was
    /// delivered, except for bulk calls whose consumers have not asked for all their outcomes yet.
    ///
    /// - Throws: `APNSConfigurationError` (`alreadyRunning`) if the client was already run.
    public func run() async throws {
        let runtime = self.runtime
        try await withGracefulShutdownHandler {
            try await runtime.run()
        } onGracefulShutdown: {
            runtime.lifecycle.beginDrain(within: runtime.live.settings.timeouts.drain)
        }
    }

    /// Runs the client in a new task and returns as soon as the client is serving. You can send pushes right away.
    ///
    /// - Throws: `APNSConfigurationError` (`alreadyRunning`) if the client is running or has stopped.
    public func start() async throws(APNSConfigurationError) {
        let runtime = self.runtime
        let isFirst = self.task.withLock { task in
            guard task == nil, runtime.lifecycle.current == .notStarted else { return false }
            task = Task { try await runtime.run() }
            return true
        }
        guard isFirst else {
            throw .alreadyRunning("start", "client")
        }
        await runtime.lifecycle.serving.wait()
    }

    /// Drains and stops the client: accepts no new pushes and lets queued and in-flight pushes finish.
    ///
    /// Returns after the last outcome was delivered, except for bulk calls whose consumers have not asked for all
    /// outcomes within the time limit.
    ///
    /// - Parameter time: the time limit for the drain. Pushes that are left after it end as `notSent` (queued) or
    ///   `unknown` (written). Nil: `timeouts.drain`.
    public func shutdown(within time: Duration? = nil) async {
        let runtime = self.runtime
        runtime.lifecycle.beginDrain(within: time ?? runtime.live.settings.timeouts.drain)
        // Not interrupted by the caller's cancellation: when this returns, the client must have stopped.
        await Task { _ = await runtime.lifecycle.stopped.wait() }.value
        if let task = self.task.withLock({ $0 }) { _ = await task.result }
        // A client that never ran also has event readers and spans to end.
        self.runtime.monitor.finish()
    }

    // MARK: Sending

    /// Sends a push that was encoded and validated earlier.
    public func deliver(
        _ prepared: PreparedPush,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async -> PushOutcome {
        await SendLoop(prepared, to: token, options, self.runtime.sending).run()
    }

    /// Encodes, validates and sends a notification.
    ///
    /// A notification that cannot be prepared ends as `notSent` with the code `validation`.
    public func deliver(
        _ notification: consuming PushNotification,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async -> PushOutcome {
        if notification.topic == nil { notification.topic = self.defaultTopic }
        switch self.makeSend(notification, to: token, options) {
        case .success(let send): return await send.run()
        case .failure(let error): return .failed(error)
        }
    }

    /// Not inlined, so that its temporary values do not occupy the task's memory for the duration of the push. Consumes
    /// the notification: its memory can then be reused for the next one while it is still in the core's cache.
    @inline(never)
    private func makeSend(
        _ notification: consuming PushNotification,
        to token: DeviceToken,
        _ options: borrowing DeliveryOptions
    ) -> Result<SendLoop<PushRequest>, PushError> {
        do throws(ValidationError) {
            return .success(
                SendLoop(try notification.prepared(), to: token, options, self.runtime.sending)
            )
        } catch {
            return .failure(self.validationFailed(notification, to: token, options.apnsID, error))
        }
    }

    /// Counts and traces a notification that cannot be prepared, and returns its error.
    private func validationFailed(
        _ notification: borrowing PushNotification,
        to token: DeviceToken,
        _ id: APNSID?,
        _ error: ValidationError
    ) -> PushError {
        let refusal = PushError.validation(error, apnsID: id)
        self.runtime.monitor.tracing.refused(refusal, topic: notification.topic ?? "", to: token)
        self.runtime.monitor.pushes.count(.failed(refusal), notification.pushType)
        return refusal
    }

    // MARK: Connections

    /// Opens connections before they are needed, one at a time, and returns when they are ready.
    ///
    /// Connections above `pool.size` are closed again after they have been idle for `pool.idleTimeout`.
    ///
    /// - Parameters:
    ///   - connections: the number of ready connections to wait for, including those that are already open; at most
    ///     `pool.size + pool.maxOverflow`.
    ///   - time: how long to wait. Connections continue to open after this time. Default 30 s.
    /// - Throws: `PoolError` if the connections are not ready in time, or as soon as it is certain that they will not
    ///   be.
    public func prewarm(_ connections: Int, within time: Duration = .seconds(30)) async throws(PoolError) {
        let deadline = self.runtime.clock.now.advanced(by: time)
        guard await self.runtime.sending.waitUntilRunning(deadline) else {
            throw PoolError(code: .notRunning, status: await self.runtime.pool.status())
        }
        try await self.runtime.pool.prewarm(connections, deadline: deadline)
    }

    // MARK: Invalid device tokens

    /// A stream of the device tokens that APNs reports as invalid (410) from now on, for all kinds of sends.
    ///
    /// Remove these tokens from your database. The outcomes contain the same information. The stream ends when the
    /// client has stopped.
    ///
    /// - Parameter bufferingNewest: how many tokens are buffered for a slow reader. When the buffer is full, the oldest
    ///   tokens are dropped and counted in the stream's `missedCount`.
    public func invalidTokens(bufferingNewest: Int) -> EventStream<InvalidToken> {
        self.runtime.monitor.invalidTokens.stream(bufferingNewest: bufferingNewest)
    }

    /// A stream of invalid device tokens with a buffer of 10,000. See ``invalidTokens(bufferingNewest:)``.
    public var invalidTokens: EventStream<InvalidToken> { self.invalidTokens(bufferingNewest: 10_000) }
}

/// Runs a client while `body` executes, then shuts it down, draining for at most `timeouts.drain`.
///
/// ```swift
/// let accepted = try await withAPNSClient(configuration: configuration) { client in
///     await client.sendAll(notification, to: deviceTokens).accepted
/// }
/// ```
///
/// - Throws: `APNSConfigurationError`, or any error thrown by `body`.
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
