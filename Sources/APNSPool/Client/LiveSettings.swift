import NIOCore
import SupervisedPool
import Synchronization

/// The current settings. The values that every push reads are stored as plain numbers.
final class LiveSettings: Sendable {
    private struct State {
        var settings: APNSClientSettings
        /// The number of changes so far.
        var version = 0
    }

    private let state: Mutex<State>
    private let deadline: Atomic<Int64>
    private let response: Atomic<Int64>

    init(_ configuration: APNSClientConfiguration) {
        self.state = Mutex(State(settings: APNSClientSettings(configuration)))
        self.deadline = Atomic(TimeAmount(configuration.timeouts.deadline).nanoseconds)
        self.response = Atomic(TimeAmount(configuration.timeouts.response).nanoseconds)
    }

    var settings: APNSClientSettings { self.state.withLock { $0.settings } }
    /// The deadline of a push that sets none of its own.
    var deadlineNanoseconds: Int64 { self.deadline.load(ordering: .relaxed) }
    /// The time limit for the response to one attempt, from when the push is sent.
    var responseLimit: TimeAmount { .nanoseconds(self.response.load(ordering: .relaxed)) }

    /// Changes the settings atomically.
    ///
    /// - Parameters:
    ///   - change: called outside the lock, and again if another change was stored in between.
    ///   - check: throws if the new settings are invalid. Nothing is changed then.
    ///   - apply: passes the new settings on. Called under the lock, in the order of the changes.
    func change(
        _ change: (inout APNSClientSettings) -> Void,
        check: (APNSClientSettings) throws(APNSConfigurationError) -> Void,
        apply: (APNSClientSettings) -> Void
    ) throws(APNSConfigurationError) {
        while true {
            let (before, version) = self.state.withLock { ($0.settings, $0.version) }
            var new = before
            change(&new)
            try check(new)
            let settings = new
            let isDone = self.state.withLock { state in
                guard state.version == version else { return false }
                state.settings = settings
                state.version &+= 1
                self.deadline.store(TimeAmount(settings.timeouts.deadline).nanoseconds, ordering: .relaxed)
                self.response.store(TimeAmount(settings.timeouts.response).nanoseconds, ordering: .relaxed)
                apply(settings)
                return true
            }
            if isDone { return }
        }
    }

    /// Passes the current settings on, under the same lock as `change`: for a new object, which may have been created
    /// from older ones.
    func apply(_ apply: (APNSClientSettings) -> Void) {
        self.state.withLock { apply($0.settings) }
    }
}

extension ClientRuntime {
    func update(_ change: (inout APNSClientSettings) -> Void) throws(APNSConfigurationError) {
        try self.live.change(change) { settings throws(APNSConfigurationError) in
            try settings.applied(to: self.configuration).validate()
        } apply: { settings in
            self.replacements.setBurst(settings.pool.size)
            let latest = self.credentials.latest
            self.apply(settings, to: latest)
            for session in self.credentials.all where session !== latest {
                self.apply(settings, to: session)
            }
            self.workers.setLimit(settings.pool.workerCount)
        }
        self.monitor.signal()
    }

    /// Applies the current settings to a new session, because they may have changed while it was created.
    func applySettings(to session: CredentialSession) {
        self.live.apply { self.apply($0, to: session) }
    }

    private func apply(_ settings: APNSClientSettings, to session: CredentialSession) {
        let configuration = settings.applied(to: self.configuration)
        let connectTimeout = TimeAmount(settings.timeouts.connect)
        for connections in [session.settings, session.management.settings] {
            connections.change(streamCap: settings.pool.maxConcurrentStreams, connectTimeout: connectTimeout)
        }
        session.currentPool.reconfigure(configuration.poolConfiguration)
        session.management.currentPool.reconfigure(
            ManagementEndpoint.poolConfiguration(configuration.poolConfiguration)
        )
        session.resizer.signal()
    }
}
