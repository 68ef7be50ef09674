import HTTP2Wire
import Synchronization

/// What all workers of one pool share.
final class ConnectionSettings: Sendable {
    let connection: Connection.Configuration
    /// At most so many streams are open on one connection, whatever the peer allows.
    let streamCap: Int
    let backoffMinimum: Duration
    let backoffMaximum: Duration
    let replacements: ReplacementBudget
    let retries: RetryBudget
    let credentials: CredentialGuard
    let events: ClientEvents
    let silence: SilenceWatch.Limits
    private let ticket = Atomic<UInt64>(1)

    init(
        connection: Connection.Configuration,
        streamCap: Int,
        backoffMinimum: Duration,
        backoffMaximum: Duration,
        replacements: ReplacementBudget,
        retries: RetryBudget,
        silence: SilenceWatch.Limits = .standard,
        events: ClientEvents = ClientEvents(),
        credentials: CredentialGuard? = nil
    ) {
        self.connection = connection
        self.streamCap = streamCap
        self.backoffMinimum = backoffMinimum
        self.backoffMaximum = backoffMaximum
        self.replacements = replacements
        self.retries = retries
        self.silence = silence
        self.events = events
        self.credentials = credentials ?? CredentialGuard(onEvent: { events.write(.credential($0)) })
    }

    func nextTicket() -> UInt64 {
        self.ticket.wrappingAdd(1, ordering: .relaxed).oldValue
    }
}
