import APNSModel
import Logging
import Synchronization

/// Something that the client's connections find out about APNs as a whole. Each event is logged as one line.
///
/// Event loops write these events without calling a log handler; a task of the client reads and logs them.
enum ClientEvent: Sendable, Equatable {
    case credential(CredentialStateMachine.Event)
    case weather(WeatherStateMachine.Event)
    /// The first connection has become degraded: it uses fewer streams than it could.
    case degraded
    /// The last degraded connection uses all its streams again.
    case recovered
}

/// The stream of events from the connections to one host, with their response times and how many are degraded.
final class ClientEvents: Sendable {
    let stream: AsyncStream<ClientEvent>
    private let continuation: AsyncStream<ClientEvent>.Continuation
    /// APNs' response times, for the pushes that connections measure.
    let responseTimes = TimeSamples()
    private let degraded = Atomic<Int>(0)

    init() {
        (self.stream, self.continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(100))
    }

    func write(_ event: ClientEvent) { self.continuation.yield(event) }

    /// How many connections use fewer streams than they could, because APNs responds with 503 and no more connections
    /// may be replaced.
    var degradedConnections: Int { self.degraded.load(ordering: .relaxed) }

    /// A connection became degraded or recovered.
    func connection(isDegraded: Bool) {
        if isDegraded {
            if self.degraded.wrappingAdd(1, ordering: .relaxed).oldValue == 0 { self.write(.degraded) }
        } else {
            if self.degraded.wrappingSubtract(1, ordering: .relaxed).newValue == 0 { self.write(.recovered) }
        }
    }
}

extension Logger {
    /// - Parameter credential: A readable name of the credential, without secrets.
    func log(_ event: ClientEvent, credential: String) {
        switch event {
        case .credential(.declared(let refusal, let holdOff)):
            self.critical(
                "APNs refuses the credential: pushes fail until it accepts one",
                metadata: ["credential": "\(credential)", "refusal": "\(refusal)", "next-try-in": "\(holdOff)"]
            )
        case .credential(.ended):
            self.notice("APNs accepts the credential again", metadata: ["credential": "\(credential)"])
        case .weather(.began(let cause)):
            self.error(
                "pushes are not delivered: each gets the same failure. One at a time is tried, the others wait",
                metadata: ["credential": "\(credential)", "failure": "\(cause)"]
            )
        case .weather(.ended(let cause, let time)):
            self.notice(
                "pushes are delivered again",
                metadata: ["credential": "\(credential)", "failure": "\(cause)", "lasted": "\(time.rounded)"]
            )
        case .degraded:
            self.warning(
                "APNs responds with 503, and no more connections may be replaced: fewer pushes are sent at once"
            )
        case .recovered:
            self.notice("APNs accepts the usual number of pushes at once again")
        }
    }
}

extension CredentialStateMachine.Refusal: CustomStringConvertible {
    var description: String {
        switch self {
        case .rejection(let reason): "\(reason.rawValue): \(reason.meaning ?? "no meaning known")"
        case .certificate(let words): "the client certificate was refused: \(words)"
        }
    }
}
