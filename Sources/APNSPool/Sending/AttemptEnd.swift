import APNSModel
import APNSTransport
import SupervisedPool

/// How one attempt ended. The steps before the stream (route, signing, checkout) throw it as an error.
enum AttemptEnd: Error {
    case accepted(Receipt)
    /// `retryAfter`: the time that the response gives. If it gives none: a pause for a device that gets too many pushes
    /// or after too many updates of the provider token; nil for any other rejection.
    indirect case rejected(Rejection, retryAfter: Duration?)
    /// Nothing of the push was written. `isFinal`: another attempt is pointless.
    case notSent(PushError.Code, String, retryAfter: Duration? = nil, isFinal: Bool)
    /// Nothing of the push was written, because each push has met the same failure since `since`. The next one may be tried
    /// at `until`. `newToken`: when a new provider token is possible, if APNs has refused the latest one as one too many.
    indirect case held(
        WeatherStateMachine.Cause,
        since: MonotonicInstant,
        until: MonotonicInstant,
        newToken: MonotonicInstant? = nil
    )
    case notProcessed(PushError.Code, String)
    case unknown(PushError.Code, String)
}

extension AttemptEnd {
    /// How long to pause for a device that gets too many pushes (429 `TooManyRequests`) if the response gives no time.
    /// Apple documents none; one minute is this library's guess.
    static let devicePause = Duration.seconds(60)

    /// Evaluates the result of a stream.
    ///
    /// - Parameter isShuttingDown: whether the client is shutting down, so that a connection closed by the client is
    ///   not replaced.
    init(
        _ result: StreamResult,
        id: APNSID,
        attempts: Int,
        responseTimeout: Duration,
        isPastDeadline: Bool,
        isShuttingDown: Bool = false
    ) {
        switch result.ending {
        case .response where result.status == 200:
            self = .accepted(result.receipt(id: id, attempts: attempts))
        case .response:
            var rejection = Rejection(
                status: result.status,
                body: result.body,
                apnsID: result.apnsID ?? id,
                apnsUniqueID: result.fields.first("apns-unique-id").map(PeerText.printable)
            )
            rejection.reason = rejection.reason.map { RejectionReason(rawValue: PeerText.printable($0.rawValue)) }
            self = .rejected(
                rejection,
                retryAfter: result.retryAfter ?? (rejection.disposition == .pauseDevice ? Self.devicePause : nil)
            )
        case .notSent:
            switch result.cause {
            case .deadline:
                // Not final if only the time limit of this attempt has passed: its connection accepted no more bytes,
                // but another one may.
                self = .notSent(.deadlineExceeded, "the deadline came before it was sent", isFinal: isPastDeadline)
            case .cancelled:
                self = .notSent(.cancelled, "the sending task was cancelled before it was sent", isFinal: true)
            case .faulty:
                self = .notSent(
                    .connectionFault,
                    "the connection could not take this push",
                    isFinal: true
                )
            case .closedLocally where isShuttingDown:
                self = .notSent(.shuttingDown, "the client was shut down before it was sent", isFinal: true)
            case .noCapacity:
                self = .notSent(.connectionLost, "its connection accepted no further stream", isFinal: false)
            case .goAway, .connectionLost, .closedLocally, .reset, .responded:
                self = .notSent(.connectionLost, "the connection was lost before it was sent", isFinal: false)
            }
        case .notProcessed:
            switch result.cause {
            case .reset(.refusedStream):
                self = .notProcessed(.refused, "APNs refused the stream without processing it (REFUSED_STREAM)")
            default:
                self = .notProcessed(.goAway, "APNs closed the connection without processing the push (GOAWAY)")
            }
        case .unknown:
            switch result.cause {
            case .deadline where isPastDeadline:
                self = .unknown(.deadlineExceeded, "it was sent, and the deadline came before a response")
            case .deadline:
                self = .unknown(.deadlineExceeded, "it was sent, and no response came within \(responseTimeout)")
            case .cancelled:
                self = .unknown(.cancelled, "the sending task was cancelled after it was sent")
            case .closedLocally where isShuttingDown:
                self = .unknown(.shuttingDown, "it was sent, and the client was shut down before a response")
            case .reset(let code):
                self = .unknown(.connectionLost, "it was sent, and the stream was reset (\(code)) before a response")
            default:
                self = .unknown(.connectionLost, "it was sent, and the connection was lost before a response")
            }
        }
    }

    /// Evaluates why the pool gave no lease.
    init(_ error: PoolError) {
        let message = Self.message(error)
        switch error.code {
        case .queueFull, .full:
            self = .notSent(.queueFull, message, retryAfter: error.retryAfter, isFinal: true)
        case .timedOut, .notRunning:
            // The client is running, so a pool that is not running is still being started.
            self = .notSent(.deadlineExceeded, message, retryAfter: error.retryAfter, isFinal: true)
        case .cancelled:
            self = .notSent(.cancelled, message, isFinal: true)
        case .unavailable:
            self = .notSent(.unavailable, message, retryAfter: error.retryAfter, isFinal: true)
        case .configurationFault:
            let isCertificate = (error.fault?.underlying as? WireError)?.code == .clientCertificateRefused
            self = .notSent(
                isCertificate ? .credential : .configuration,
                error.fault?.description ?? message,
                retryAfter: error.retryAfter,
                isFinal: true
            )
        case .shuttingDown:
            self = .notSent(.shuttingDown, message, isFinal: true)
        default:
            // The pool stopped. Its successor may send the push.
            self = .notSent(.connectionLost, message, retryAfter: error.retryAfter, isFinal: false)
        }
    }

    /// The end after which no attempt follows, for a push that bad weather holds.
    func final(now: MonotonicInstant) -> AttemptEnd {
        guard case .held = self, let error = self.error(now: now) else { return self }
        return .notSent(error.code, error.message, retryAfter: error.retryAfter, isFinal: true)
    }

    /// The error of a push that is not sent; nil for every other end.
    func error(now: MonotonicInstant) -> PushError? {
        switch self {
        case .notSent(let code, let message, let retryAfter, _):
            PushError(code: code, certainty: .notSent, message: message, retryAfter: retryAfter)
        case .held(let cause, let since, let until, let newToken):
            PushError(
                code: cause.concernsCredential ? .credential : .outage,
                certainty: .notSent,
                message: """
                    each push has met the same failure for \(since.duration(to: now).components.seconds) s: \(cause)
                    """,
                retryAfter: max(now.duration(to: newToken ?? until), .zero)
            )
        case .accepted, .rejected, .notProcessed, .unknown: nil
        }
    }

    /// Describes the pool's error in terms of the client's settings.
    private static func message(_ error: PoolError) -> String {
        let fault = error.fault.map { ": \($0)" } ?? ""
        let status = error.status
        switch error.code {
        case .queueFull:
            return """
                \(status.queueDepth) pushes are already waiting (\(status.queuedBytes) bytes): send less at once, or \
                raise pool.maxOverflow, pool.maxQueued or pool.maxQueuedBytes
                """
        case .full:
            return "all \(status.capacity) streams are taken: send less at once, or raise pool.maxOverflow"
        case .timedOut where status.capacity == 0, .notRunning:
            return "no connection to APNs was ready before the deadline\(fault)"
        case .timedOut:
            return """
                no stream became free before the deadline (\(status.queueDepth) pushes wait for \(status.capacity) \
                streams): send less at once, allow a longer deadline, or raise pool.size or pool.maxOverflow
                """
        case .cancelled: return "the sending task was cancelled before it was sent"
        case .unavailable: return "there has been no connection to APNs for a while\(fault)"
        case .shuttingDown, .poolStopped: return "the client was shut down before it was sent"
        default: return error.description
        }
    }
}

extension StreamResult {
    /// The receipt of a stream that got a response with status 200.
    func receipt(id: APNSID, attempts: Int) -> Receipt {
        if self.isBare { return Receipt(apnsID: id, attempts: attempts) }
        return Receipt(
            apnsID: self.apnsID ?? id,
            apnsUniqueID: self.fields.first("apns-unique-id").map(PeerText.printable),
            attempts: attempts
        )
    }

    /// Whether APNs accepted the push.
    var isAccepted: Bool { self.ending == .response && self.status == 200 }

    /// The `apns-id` in the response. APNs writes it in upper case; edge servers omit it.
    var apnsID: APNSID? {
        var id: APNSID?
        self.fields.withFirst("apns-id") { id = APNSID(utf8: $0) }
        return id
    }
}
