import APNSModel
import SupervisedPool
import Tracing

/// The span of a push, a broadcast or a channel call. A class, so that a push without a span stores one word.
final class CallSpan: Sendable {
    private let span: any Tracing.Span

    init(_ span: any Tracing.Span, _ attributes: SpanAttributes) {
        self.span = span
        self.update { $0.merge(attributes) }
    }

    /// Skips the change if the span is not sampled.
    func update(_ change: (inout SpanAttributes) -> Void) {
        guard self.span.isRecording else { return }
        var attributes = self.span.attributes
        change(&attributes)
        self.span.attributes = attributes
    }

    /// An attempt has ended, and another one follows.
    func retry(after end: AttemptEnd, attempts: Int, in delay: Duration) {
        guard self.span.isRecording else { return }
        var attributes = SpanAttributes([:])
        attributes["apns.attempts"] = attempts
        attributes["apns.retry.delay"] = delay / .seconds(1)
        attributes["apns.outcome"] = end.certainty.rawValue
        attributes["apns.reason"] = end.reason
        if case .rejected(let rejection, _) = end { attributes["http.response.status_code"] = rejection.status }
        self.span.addEvent(SpanEvent(name: "apns.retry", attributes: attributes))
    }

    func end(_ outcome: PushOutcome) {
        switch outcome {
        case .accepted(let receipt):
            self.end(accepted: 200, attempts: receipt.attempts, uniqueID: receipt.apnsUniqueID)
        case .rejected(let error), .notProcessed(let error), .notSent(let error), .unknown(let error):
            self.end(error)
        }
    }

    /// - Parameter status: The status of APNs' response.
    func end(accepted status: Int, attempts: Int, uniqueID: String? = nil) {
        self.update { attributes in
            attributes["apns.outcome"] = Certainty.accepted.rawValue
            attributes["apns.attempts"] = attempts
            attributes["apns.unique_id"] = uniqueID
            attributes["http.response.status_code"] = status
        }
        self.span.end()
    }

    func end(_ error: PushError) {
        self.update { attributes in
            attributes["apns.outcome"] = error.certainty.rawValue
            attributes["apns.reason"] = error.rejection?.reason?.rawValue ?? error.code.rawValue
            attributes["apns.attempts"] = error.attempts
            attributes["http.response.status_code"] = error.rejection?.status
            // A low-cardinality value, as the definition of `error.type` requires.
            attributes["error.type"] = PushCounters.reason(error)
        }
        self.span.setStatus(SpanStatus(code: .error, message: error.message))
        self.span.end()
    }
}

extension AttemptEnd {
    var certainty: Certainty {
        switch self {
        case .accepted: .accepted
        case .rejected: .rejected
        case .notSent, .held: .notSent
        case .notProcessed: .notProcessed
        case .unknown: .unknown
        }
    }

    /// APNs' reason, or else the error's code; nil if the push was accepted.
    fileprivate var reason: String? {
        switch self {
        case .accepted: nil
        case .rejected(let rejection, _): rejection.reason?.rawValue ?? PushError.Code.rejected.rawValue
        case .notSent(let code, _, _, _), .notProcessed(let code, _), .unknown(let code, _): code.rawValue
        case .held: "held"
        }
    }
}
