import APNSModel
import APNSBasics
import APNSTransport
import NIOCore
import SupervisedPool
import Synchronization

/// The dependencies shared by everything a client sends, and the two steps that single pushes, broadcasts, channel
/// calls and bulk calls have in common: `evaluate` determines how an attempt ended, `decide` whether another one
/// follows.
final class SendContext: Sendable {
    let configuration: APNSClientConfiguration
    let live: LiveSettings
    let lifecycle: ClientLifecycle
    let credentials: CredentialManager
    let router: SendRouter
    let ids = IDSource()
    let monitor: ClientMonitor
    let massRejection: MassRejectionDetector

    var clock: any MonotonicClock { self.configuration.clock }
    /// The name of the active credential for logs and messages, without secrets.
    var credentialName: String { self.credentials.latest.resolved.name }

    init(
        _ configuration: APNSClientConfiguration,
        live: LiveSettings,
        lifecycle: ClientLifecycle,
        credentials: CredentialManager,
        version: SendRouteVersion,
        monitor: ClientMonitor
    ) {
        self.configuration = configuration
        self.live = live
        self.lifecycle = lifecycle
        self.credentials = credentials
        self.router = SendRouter(
            credentials: credentials,
            lifecycle: lifecycle,
            authority: configuration.environment.authority,
            clock: configuration.clock,
            version: version
        )
        self.monitor = monitor
        self.massRejection = MassRejectionDetector(limits: configuration.massRejection)
    }

    // MARK: The end of an attempt

    /// Counts the attempt and determines how it ended. Passes what the response reveals about the provider token to the
    /// token cache.
    @inline(never)
    func evaluate(_ result: StreamResult, of route: SendRoute?, _ history: inout PushHistory) -> AttemptEnd {
        if result.ending == .notSent {
            route?.returnAdmission()
        } else {
            history.countAttempt()
        }
        if result.isAccepted { return .accepted(result.receipt(id: history.id, attempts: history.attempts)) }
        let end = AttemptEnd(
            result,
            id: history.id,
            attempts: history.attempts,
            responseTimeout: .nanoseconds(self.live.responseLimit.nanoseconds),
            isPastDeadline: self.clock.now >= history.deadline,
            isShuttingDown: !self.lifecycle.current.takesPushes
        )
        guard case .rejected(let rejection, let retryAfter) = end, let route else { return end }
        guard let token = route.token else { return end }
        let date = rejection.status == 403 ? result.fields.first("date") : nil
        if rejection.status == 403 { self.monitor.reportRefusedToken(date: date) }
        guard TokenStateMachine.concernsToken(rejection.reason) else { return end }
        let verdict = route.credentialSession.tokens.rejected(
            rejection.reason,
            generation: token.generation,
            serverTime: date.flatMap(HTTPDate.seconds)
        )
        switch verdict {
        case .kept:
            return end
        case .replaced:
            history.tokenIsReplaced()
            return end
        case .clockSuspect:
            self.monitor.reportClockSuspect()
            return end
        case .tooManyUpdates(let until, let isNew):
            let time = self.clock.now.duration(to: until)
            if isNew { self.monitor.reportTooManyTokenUpdates(time, credential: route.credentialSession.resolved.name) }
            return .rejected(rejection, retryAfter: retryAfter ?? time)
        }
    }

    /// Decides whether another attempt follows.
    ///
    /// - Parameter budget: the retry budget of the host that manages channels; nil: the attempt was a push.
    @inline(never)
    func decide(
        _ end: AttemptEnd,
        _ history: inout PushHistory,
        budget: SharedTokenBucket? = nil
    ) -> PushHistory.Decision {
        if case .accepted(let receipt) = end { return .finish(.accepted(receipt)) }
        var generator = SplitMix64(seed: nil)
        let decision = history.decide(
            end,
            policy: self.configuration.retry,
            now: self.clock.now,
            using: &generator,
            isDegraded: budget == nil && self.monitor.events.degradedConnections > 0,
            patience: self.patience,
            takeBudget: { budget?.take(now: self.clock.now) ?? true }
        )
        guard case .retry = decision else { return decision }
        // Pushes that are left after the supervision tree has ended are not retried.
        if self.lifecycle.current == .stopped {
            return .finish(history.fail(.shuttingDown, "the client was shut down"))
        }
        // A push that waits for the weather to pass has made no further attempt.
        if case .held = end { return decision }
        self.monitor.resends.wrappingAdd(1, ordering: .relaxed)
        return decision
    }

    /// How long a push waits for bad weather to pass: as long as for a connection. Nil: until its deadline.
    private var patience: Duration? {
        let pool = self.live.settings.pool
        return pool.whenUnavailable == .wait ? nil : pool.unavailableAfter
    }

    // MARK: Time

    /// The deadline of a call that is made at `now`.
    ///
    /// - Parameter own: its longest time; nil for the client's default.
    func deadline(_ own: Duration?, from now: MonotonicInstant) -> MonotonicInstant {
        if let own { return now.advanced(by: own) }
        return self.deadline(after: self.live.deadlineNanoseconds, from: now)
    }

    /// The instant that lies `nanoseconds` after `now`. Computing with `Duration` would cost 128-bit arithmetic for each
    /// push.
    func deadline(after nanoseconds: Int64, from now: MonotonicInstant) -> MonotonicInstant {
        let (sum, overflow) = now.nanoseconds.addingReportingOverflow(nanoseconds)
        return MonotonicInstant(nanoseconds: overflow ? .max : sum)
    }

    /// The end of a push whose `apns-expiration` has passed; nil if it may be sent.
    func expiry(of push: PreparedPush) -> AttemptEnd? {
        guard case .at = push.expiration,
            push.isExpired(atSecondsSince1970: self.configuration.wallClock())
        else { return nil }
        return .notSent(.expired, "its apns-expiration passed while it waited", isFinal: true)
    }

    /// Waits until the client runs, at most until `deadline`. Returns whether it runs. Logs a warning after one second.
    func waitUntilRunning(_ deadline: MonotonicInstant) async -> Bool {
        let warning = min(self.clock.now.advanced(by: .seconds(1)), deadline)
        if await self.lifecycle.running.wait(until: warning, clock: self.clock) { return true }
        if Task.isCancelled { return false }
        self.monitor.reportNotRunning()
        return await self.lifecycle.running.wait(until: deadline, clock: self.clock)
    }
}
