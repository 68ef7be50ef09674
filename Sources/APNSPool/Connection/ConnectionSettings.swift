import HTTP2Wire
import NIOCore
import Synchronization

/// What all workers of one pool share.
final class ConnectionSettings: Sendable {
    private let fixed: Connection.Configuration
    private let cap: Atomic<Int>
    private let connectNanoseconds: Atomic<Int64>
    let backoffMinimum: Duration
    let backoffMaximum: Duration
    let replacements: ReplacementBudget
    let retries: RetryBudget
    let credentials: CredentialBreaker
    let events: ClientEvents
    /// What the random parts of the waits between connects follow from; nil: nothing, they differ in each run.
    let seed: UInt64?
    private let ticket = Atomic<UInt64>(1)

    init(
        connection: Connection.Configuration,
        streamCap: Int,
        backoffMinimum: Duration,
        backoffMaximum: Duration,
        replacements: ReplacementBudget,
        retries: RetryBudget,
        seed: UInt64? = nil,
        events: ClientEvents = ClientEvents(),
        credentials: CredentialBreaker? = nil
    ) {
        self.fixed = connection
        self.cap = Atomic(streamCap)
        self.connectNanoseconds = Atomic(connection.connectTimeout.nanoseconds)
        self.backoffMinimum = backoffMinimum
        self.backoffMaximum = backoffMaximum
        self.replacements = replacements
        self.retries = retries
        self.seed = seed
        self.events = events
        self.credentials = credentials ?? CredentialBreaker(onEvent: { events.write(.credential($0)) })
    }

    /// For the next connect.
    var connection: Connection.Configuration {
        var connection = self.fixed
        connection.connectTimeout = .nanoseconds(self.connectNanoseconds.load(ordering: .relaxed))
        return connection
    }

    /// At most so many streams are open on one connection, whatever the peer allows.
    var streamCap: Int { self.cap.load(ordering: .relaxed) }

    /// Takes hold with the next connect.
    func change(streamCap: Int, connectTimeout: TimeAmount) {
        self.cap.store(streamCap, ordering: .relaxed)
        self.connectNanoseconds.store(connectTimeout.nanoseconds, ordering: .relaxed)
    }

    func nextTicket() -> UInt64 {
        self.ticket.wrappingAdd(1, ordering: .relaxed).oldValue
    }
}
