import APNSModel
import SupervisedPool

/// Sends pushes through the clients of a group's apps. Waits for a client that does not run yet.
final class GroupSender: Sendable {
    let registry: AppRegistry
    private let starter: ClientStarter
    // Used for each push: reading it from the configuration would copy the whole configuration.
    private let clock: any MonotonicClock

    init(_ registry: AppRegistry, _ starter: ClientStarter) {
        self.registry = registry
        self.starter = starter
        self.clock = registry.configuration.client.clock
    }

    func deliver(
        _ push: some PushContent,
        topic: String?,
        to token: DeviceToken,
        app: String,
        environment: APNSEnvironment,
        options: DeliveryOptions
    ) async -> PushOutcome {
        let deadline = self.deadline(options.deadline)
        while true {
            switch await self.client(app, environment, topic: topic, until: deadline) {
            case .failure(let error):
                return .failed(self.withAPNSID(error, options))
            case .success(let client):
                var options = options
                options.deadline = self.clock.now.duration(to: deadline)
                let outcome = await push.deliver(with: client, to: token, options: options)
                guard self.wasStopped(outcome), self.clock.now < deadline else { return outcome }
                // The registry may learn only now that the client has ended.
                await Task.yield()
            }
        }
    }

    /// Whether nothing was sent because the client was stopped, although the group goes on. The app may have another
    /// client now, or get one.
    private func wasStopped(_ outcome: PushOutcome) -> Bool {
        guard let error = outcome.error, error.code == .shuttingDown, error.certainty == .notSent else { return false }
        return !self.registry.isOver && !Task.isCancelled
    }

    /// The deadline of a push that begins now; nil uses the default time limit.
    func deadline(_ time: Duration?) -> MonotonicInstant {
        self.clock.now.advanced(by: time ?? .nanoseconds(self.starter.live.deadlineNanoseconds))
    }

    @inline(never)
    private func withAPNSID(_ error: PushError, _ options: DeliveryOptions) -> PushError {
        var error = error
        error.apnsID = options.apnsID
        return error
    }

    // Not inlined: its temporary values would otherwise occupy the task's memory for the duration of the push.

    /// Returns the app's client, which runs or is about to run. It may be stopped at any time; then it refuses work with
    /// `shuttingDown`.
    ///
    /// - Parameters:
    ///   - topic: The topic of the push, which is checked; nil: not checked.
    ///   - isCall: Whether the use is a call, which may last much longer than a push.
    @inline(never)
    func client(
        _ name: String,
        _ environment: APNSEnvironment,
        topic: String? = nil,
        asCall isCall: Bool = false,
        until deadline: MonotonicInstant
    ) async -> Result<APNSClient, PushError> {
        while true {
            switch self.registry.enter(name, environment, topic: topic, asCall: isCall) {
            case .refused(let error):
                return .failure(error)
            case .use(let client):
                return .success(client)
            case .wait(let start, let clientID):
                _ = await start.latch.wait(until: deadline, clock: self.clock)
                let result = self.registry.result(of: start, clientID)
                // The app got another key meanwhile. The client that has started uses the old key, for other apps.
                guard self.registry.hasMoved(name, environment, from: clientID) else { return result }
            }
        }
    }

    /// Returns the app's client for a call: it is not stopped before `endCall`.
    func beginCall(
        _ name: String,
        _ environment: APNSEnvironment,
        until deadline: MonotonicInstant
    ) async -> Result<APNSClient, PushError> {
        await self.hold { await self.client(name, environment, asCall: true, until: deadline) }
    }

    /// Returns a candidate's client for a probe, as `beginCall`.
    func beginProbe(
        _ candidate: AppRegistry.Candidate,
        _ environment: APNSEnvironment,
        until deadline: MonotonicInstant
    ) async -> Result<APNSClient, PushError> {
        await self.hold {
            switch self.registry.enter(candidate, environment) {
            case .refused(let error): return .failure(error)
            case .use(let client): return .success(client)
            case .wait(let start, let clientID):
                _ = await start.latch.wait(until: deadline, clock: self.clock)
                return self.registry.result(of: start, clientID)
            }
        }
    }

    /// Begins a call on the client that `lookUp` returns. Looks it up again if it was stopped a moment ago.
    private func hold(
        _ lookUp: () async -> Result<APNSClient, PushError>
    ) async -> Result<APNSClient, PushError> {
        while true {
            let result = await lookUp()
            guard case .success(let client) = result, !client.runtime.lifecycle.enter(.bulk) else { return result }
            if self.registry.isOver { return .failure(AppRegistry.shuttingDown) }
            // The registry may learn only now that the client has ended.
            await Task.yield()
        }
    }
}

extension APNSClient {
    /// Ends a call of a group.
    func endCall() { self.runtime.lifecycle.leave(.bulk) }
}
