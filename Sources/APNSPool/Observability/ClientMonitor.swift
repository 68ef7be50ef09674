// This folder contains health, log lines, metrics, spans and the status. It reads the counts and reports of the other
// folders, and decides nothing about pushes, connections or credentials.

import APNSModel
import Logging
import SupervisedPool
import Synchronization

/// Turns a client's events into health, log lines, metrics and spans. Every method but `run` returns at once, and every
/// method may be called from any thread.
final class ClientMonitor: Sendable {
    let configuration: APNSClientConfiguration
    let tracing: ClientTracing
    /// The events of connections to the push host.
    let events = ClientEvents()
    /// The events of connections to the host that manages broadcast channels.
    let managementEvents = ClientEvents()
    let healthChanges = EventHub<APNSHealth>()
    let invalidTokens = EventHub<InvalidToken>()

    let pushes = PushCounters()
    /// How many times a push was resent.
    let resends = Atomic<Int>(0)
    /// How many times a part of the tree crashed and was restarted.
    let restarts = Atomic<Int>(0)
    /// How many times the whole tree gave up.
    let escalations = Atomic<Int>(0)
    /// Connections that became ready.
    let connects = Atomic<Int>(0)
    /// The connections among them that were not the first of their worker.
    let reconnects = Atomic<Int>(0)
    /// Lost connections and failed connects.
    let connectionLosses = Atomic<Int>(0)
    let queueTimes = TimeSamples()
    let connectTimes = TimeSamples()

    /// The health that was last published.
    private let state = Mutex(APNSHealth.starting)
    private let signals: AsyncStream<Void>
    private let signalling: AsyncStream<Void>.Continuation
    // Flags for messages that are logged only once.
    private let hasLoggedClockSkew = Atomic<Bool>(false)
    private let hasLoggedClockSuspect = Atomic<Bool>(false)
    private let hasLoggedNotRunning = Atomic<Bool>(false)

    var logger: Logger { self.configuration.logger }
    private var clock: any MonotonicClock { self.configuration.clock }

    init(_ configuration: APNSClientConfiguration) {
        self.configuration = configuration
        self.tracing = ClientTracing(configuration)
        (self.signals, self.signalling) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    // MARK: The client's life

    /// Logs events and publishes health changes, until the task is cancelled.
    ///
    /// - Parameters:
    ///   - credential: Returns a readable name of the credential, without secrets.
    ///   - health: Evaluates the health.
    func run(
        credential: @escaping @Sendable () -> String,
        health: @escaping @Sendable () async -> APNSHealth
    ) async {
        await withDiscardingTaskGroup { group in
            group.addTask {
                for await event in self.events.stream {
                    self.logger.log(event, credential: credential())
                    self.signal()
                }
            }
            group.addTask {
                let logger = ManagementEndpoint.logger(self.configuration)
                for await event in self.managementEvents.stream { logger.log(event, credential: credential()) }
            }
            group.addTask {
                for await _ in self.signals { self.publish(await health()) }
            }
        }
    }

    /// Call this when the client has ended.
    func finish() {
        self.publish(.stopped)
        self.healthChanges.finish()
        self.invalidTokens.finish()
        self.tracing.finish()
    }

    // MARK: Health

    /// Call this after any change that affects the health.
    func signal() { self.signalling.yield() }

    /// Whether there has been a connection.
    var hasConnected: Bool { self.connects.load(ordering: .relaxed) > 0 }

    private func publish(_ health: APNSHealth) {
        let isNew = self.state.withLock { state in
            defer { state = health }
            return state != health
        }
        if isNew { self.healthChanges.post(health) }
    }

    // MARK: Connections and the tree

    func report(_ event: SupervisorEvent) {
        if case .restarting = event { self.restarts.wrappingAdd(1, ordering: .relaxed) }
        self.logger.log(event)
    }

    /// A session's tree gave up. It restarts after the pause, unless it was a candidate's.
    func reportEscalation(_ error: any Error, pause: Duration) {
        self.escalations.wrappingAdd(1, ordering: .relaxed)
        self.logger.critical(
            "the supervision tree gave up; this is a bug in the library",
            metadata: ["error": "\(error)", "next-start-in": "\(pause)"]
        )
    }

    /// A connection is ready.
    func reportConnected(isFirst: Bool) {
        self.connects.wrappingAdd(1, ordering: .relaxed)
        if !isFirst { self.reconnects.wrappingAdd(1, ordering: .relaxed) }
    }

    /// A connection was lost, or a connect failed.
    func reportLoss() {
        self.connectionLosses.wrappingAdd(1, ordering: .relaxed)
    }

    /// Signing of provider tokens has succeeded or failed. A change is logged.
    func reportSigning(_ report: SigningReport, credential: String) {
        self.signal()
        if report.isChange { self.logger.log(report, signedWith: credential) }
    }

    // MARK: Pushes

    /// Counts an outcome, logs a failure, and publishes a device token that APNs rejects as invalid.
    func reportOutcome(_ outcome: PushOutcome, _ push: PreparedPush, _ token: DeviceToken) {
        self.pushes.count(outcome, push.pushType)
        guard let error = outcome.error else { return }
        self.logFailure(error, push, token)
        guard let invalidation = outcome.invalidation else { return }
        let invalid = InvalidToken(deviceToken: token, topic: push.topic, invalidation: invalidation)
        self.invalidTokens.post(invalid)
        self.configuration.groupInvalidTokens?.post(invalid)
    }

    private func logFailure(_ error: PushError, _ push: PreparedPush, _ token: DeviceToken) {
        // Skips the work if the line would not be logged.
        guard self.logger.logLevel <= .debug else { return }
        var metadata: Logger.Metadata = [
            "topic": "\(push.topic)",
            "type": "\(push.pushType.rawValue)",
            "outcome": "\(error.certainty.rawValue)",
            "reason": "\(error.rejection?.reason?.rawValue ?? error.code.rawValue)",
            "attempts": "\(error.attempts)",
        ]
        if let id = error.apnsID { metadata["apns-id"] = "\(id)" }
        if let text = self.configuration.logging.text(of: token) { metadata["device-token"] = "\(text)" }
        self.logger.debug("a push was not accepted", metadata: metadata)
    }

    /// Logs, once, that a push waits because the client is not running.
    func reportNotRunning() {
        guard !self.hasLoggedNotRunning.exchange(true, ordering: .relaxed) else { return }
        self.logger.warning("a push waits, but the client is not running: call run(), start() or withAPNSClient")
    }

    // MARK: Provider tokens

    /// APNs counts too many provider tokens of this key, usually because another process uses the key.
    func reportTooManyTokenUpdates(_ time: Duration, credential: String) {
        self.logger.error(
            "APNs saw too many provider tokens of this key; the current one is kept. Do other processes use the key?",
            metadata: ["credential": "\(credential)", "no-new-token-for": "\(time)"]
        )
    }

    /// Logs, once, that this machine's clock differs from the `date` of a response that refused the provider token.
    func reportRefusedToken(date: String?) {
        guard let hint = ClockSkew.skewHint(dateHeader: date, wallNow: self.configuration.wallClock()),
            !self.hasLoggedClockSkew.exchange(true, ordering: .relaxed)
        else { return }
        self.logger.error("APNs refuses the provider token", metadata: ["clock": "\(hint)"])
    }

    /// Logs, once, that APNs refuses newly signed provider tokens because of their issue time.
    func reportClockSuspect() {
        guard !self.hasLoggedClockSuspect.exchange(true, ordering: .relaxed) else { return }
        self.logger.error(
            "APNs refuses a new provider token because of its issue time: check this machine's clock"
        )
    }

    // MARK: Mass rejection

    /// APNs rejects so many device tokens that the environment, the topic or the key must be wrong.
    func reportMassRejection(_ rejection: Rejection, topic: String, credential: String) {
        self.signal()
        self.logger.critical(
            "most device tokens are refused: the environment, the topic or the key must be wrong. Do not delete tokens",
            metadata: [
                "reason": "\(rejection.reason?.rawValue ?? "\(rejection.status)")",
                "environment": "\(self.configuration.environment.name)",
                "host": "\(self.configuration.environment)",
                "topic": "\(topic)",
                "credential": "\(credential)",
            ]
        )
    }

    func reportMassRejectionOver() {
        self.signal()
        self.logger.notice("most device tokens are accepted again")
    }
}
