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
        _ push: consuming some PushContent,
        topic: String?,
        to token: DeviceToken,
        app: String,
        environment: APNSEnvironment,
        options: DeliveryOptions
    ) async -> PushOutcome {
        let deadline = self.deadline(options.deadline)
        switch await self.use(app, environment, topic: topic, until: deadline) {
        case .failure(let error):
            return .failed(self.withAPNSID(error, options))
        case .success(let use):
            defer { self.registry.leave(use) }
            var options = options
            options.deadline = self.clock.now.duration(to: deadline)
            return await push.deliver(with: use.client, to: token, options: options)
        }
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

    /// Returns the app's client, which runs or is about to run. `AppRegistry.leave` must follow.
    ///
    /// - Parameter topic: The topic of the push, which is checked; nil: not checked.
    @inline(never)
    func use(
        _ name: String,
        _ environment: APNSEnvironment,
        topic: String? = nil,
        asCall: Bool = false,
        until deadline: MonotonicInstant
    ) async -> Result<AppRegistry.Use, PushError> {
        while true {
            switch self.registry.enter(name, environment, topic: topic, asCall: asCall) {
            case .refused(let error):
                return .failure(error)
            case .use(let use):
                return .success(use)
            case .wait(let start, let clientID):
                _ = await start.latch.wait(until: deadline, clock: self.clock)
                let result = self.registry.result(of: start, clientID, asCall: asCall)
                // The app got another key meanwhile. The client that has started uses the old key, for other apps.
                guard self.registry.hasMoved(name, environment, from: clientID) else { return result }
                if case .success(let use) = result { self.registry.leave(use) }
            }
        }
    }
}
