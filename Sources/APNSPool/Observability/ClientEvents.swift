import APNSModel
import Logging
import Synchronization

/// What the client's connections found out about APNs as a whole: one line in the log each. Written on event loops,
/// which call no log handler, and read by a task of the client.
enum ClientEvent: Sendable, Equatable {
    case credential(CredentialStateMachine.Event)
    /// The first connection takes fewer streams than it could.
    case degraded
    /// The last one takes all again.
    case recovered
}

final class ClientEvents: Sendable {
    let stream: AsyncStream<ClientEvent>
    private let continuation: AsyncStream<ClientEvent>.Continuation
    /// How long APNs takes for a response, of those pushes that connections time.
    let responseTimes = TimeSamples()
    private let degraded = Atomic<Int>(0)

    init() {
        (self.stream, self.continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(100))
    }

    func write(_ event: ClientEvent) { self.continuation.yield(event) }

    /// How many connections take fewer streams than they could, because APNs answers 503 and may not be met with
    /// further connections.
    var degradedConnections: Int { self.degraded.load(ordering: .relaxed) }

    /// A connection began, or ceased, to be one of them.
    func connection(isDegraded: Bool) {
        if isDegraded {
            if self.degraded.wrappingAdd(1, ordering: .relaxed).oldValue == 0 { self.write(.degraded) }
        } else {
            if self.degraded.wrappingSubtract(1, ordering: .relaxed).newValue == 0 { self.write(.recovered) }
        }
    }
}

extension Logger {
    /// - Parameter credential: what the client shows to APNs, in words without secrets.
    func log(_ event: ClientEvent, credential: String) {
        switch event {
        case .credential(.declared(let refusal, let holdOff)):
            self.critical(
                "APNs refuses the credential: pushes fail until it accepts one",
                metadata: ["credential": "\(credential)", "refusal": "\(refusal)", "next-try-in": "\(holdOff)"]
            )
        case .credential(.proven), .credential(.refusedOnTrial):
            // The trial tells.
            break
        case .credential(.ended):
            self.notice("APNs accepts the credential again", metadata: ["credential": "\(credential)"])
        case .degraded:
            self.warning("APNs answers 503, and no further connection may replace one: fewer pushes are sent at once")
        case .recovered:
            self.notice("APNs takes as many pushes at once as before")
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
