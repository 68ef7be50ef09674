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
    private let ticket = Atomic<UInt64>(1)

    init(
        connection: Connection.Configuration,
        streamCap: Int,
        backoffMinimum: Duration,
        backoffMaximum: Duration,
        replacements: ReplacementBudget,
        retries: RetryBudget
    ) {
        self.connection = connection
        self.streamCap = streamCap
        self.backoffMinimum = backoffMinimum
        self.backoffMaximum = backoffMaximum
        self.replacements = replacements
        self.retries = retries
    }

    func nextTicket() -> UInt64 {
        self.ticket.wrappingAdd(1, ordering: .relaxed).oldValue
    }
}
