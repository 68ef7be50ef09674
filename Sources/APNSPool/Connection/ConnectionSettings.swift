import APNSModel
import APNSTransport
import NIOCore
import SupervisedPool
import Synchronization

/// The settings and budgets that all workers of one pool share.
final class ConnectionSettings: Sendable {
    private let fixed: Connection.Configuration
    private let cap: Atomic<Int>
    private let connectNanoseconds: Atomic<Int64>
    let backoff: Backoff
    /// See `UnansweredPushes.warning`.
    let silenceWarning: Duration
    let replacements: SharedTokenBucket
    let credentialBreaker: CredentialBreaker
    let weather: Weather
    let events: ClientEvents
    /// Called when a worker has found that its path to APNs is lost, so that its siblings do not wait for theirs.
    let pathLosses = Listeners()
    /// The seed for the random part of connect backoffs; nil: random in each run.
    let seed: UInt64?

    init(
        connection: Connection.Configuration,
        streamCap: Int,
        backoff: Backoff = ConnectionStateMachine.delays,
        silenceWarning: Duration = UnansweredPushes.defaultWarning,
        replacements: SharedTokenBucket,
        seed: UInt64? = nil,
        events: ClientEvents = ClientEvents(),
        credentialBreaker: CredentialBreaker? = nil,
        weather: Weather = Weather()
    ) {
        self.fixed = connection
        self.cap = Atomic(streamCap)
        self.connectNanoseconds = Atomic(connection.connectTimeout.nanoseconds)
        self.backoff = backoff
        self.silenceWarning = silenceWarning
        self.replacements = replacements
        self.seed = seed
        self.events = events
        self.weather = weather
        self.credentialBreaker = credentialBreaker ?? CredentialBreaker(onEvent: { events.write(.credential($0)) })
    }

    /// The settings for the next connect.
    var connection: Connection.Configuration {
        var connection = self.fixed
        connection.connectTimeout = .nanoseconds(self.connectNanoseconds.load(ordering: .relaxed))
        return connection
    }

    /// The maximum number of open streams on one connection, regardless of the peer's limit.
    var streamCap: Int { self.cap.load(ordering: .relaxed) }

    /// Changes settings, with effect from the next connect.
    func change(streamCap: Int, connectTimeout: TimeAmount) {
        self.cap.store(streamCap, ordering: .relaxed)
        self.connectNanoseconds.store(connectTimeout.nanoseconds, ordering: .relaxed)
    }
}
