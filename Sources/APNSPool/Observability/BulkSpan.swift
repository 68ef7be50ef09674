import APNSModel
import Synchronization
import Tracing

/// The span of one bulk call, which begins with the first `next()`. It records counts, the topic if there is only one,
/// and how the call ended, but no individual pushes.
final class BulkSpan: Sendable {
    /// The way a call ended.
    enum End: String {
        /// All of the input has outcomes.
        case finished
        /// It was stopped through its control.
        case stopped
        case cancelled
        case suspectedMisconfiguration = "suspected-misconfiguration"
        /// Its consumer left the loop.
        case left
        /// The client drained or ended before all of the input was read, or the consumer did not read the remaining outcomes.
        case clientStopped = "client-stopped"
    }

    private enum Topic {
        case none
        case one(String)
        case many
    }

    private struct State {
        var progress = BulkProgress()
        var resends = 0
        var topic = Topic.none
        var isEnded = false
    }

    private let span: any Tracing.Span
    private let onEnd: @Sendable (BulkSpan) -> Void
    private let state = Mutex(State())

    init(_ span: any Tracing.Span, common: SpanAttributes, onEnd: @escaping @Sendable (BulkSpan) -> Void) {
        self.span = span
        self.onEnd = onEnd
        guard span.isRecording else { return }
        span.attributes.merge(common)
    }

    func note(_ progress: BulkProgress) { self.state.withLock { $0.progress = progress } }

    func countResend() { self.state.withLock { $0.resends += 1 } }

    /// Notes the topic of a push that is sent. Called when its headers differ from those of the previous push.
    func note(topic: String) {
        self.state.withLock { state in
            switch state.topic {
            case .none: state.topic = .one(topic)
            case .one(let known) where known != topic: state.topic = .many
            case .one, .many: break
            }
        }
    }

    /// Ends the span. A second call has no effect.
    func end(_ end: End) {
        let state = self.state.withLock { state -> State? in
            if state.isEnded { return nil }
            state.isEnded = true
            return state
        }
        guard let state else { return }
        self.onEnd(self)
        let counts = state.progress.outcomes
        if self.span.isRecording {
            var attributes = self.span.attributes
            if case .one(let topic) = state.topic {
                attributes["messaging.destination.name"] = topic
                self.span.operationName = "send_bulk \(topic)"
            }
            attributes["messaging.batch.message_count"] = state.progress.pulled
            attributes["apns.bulk.end"] = end.rawValue
            attributes["apns.bulk.unfinished"] = state.progress.unfinished
            attributes["apns.bulk.resends"] = state.resends
            attributes["apns.bulk.accepted"] = counts.accepted
            attributes["apns.bulk.rejected"] = counts.rejected
            attributes["apns.bulk.not_processed"] = counts.notProcessed
            attributes["apns.bulk.not_sent"] = counts.notSent
            attributes["apns.bulk.unknown"] = counts.unknown
            self.span.attributes = attributes
        }
        if end == .suspectedMisconfiguration || counts.isSuspicious {
            self.span.setStatus(SpanStatus(code: .error, message: counts.text))
        }
        self.span.end()
    }
}

extension BulkSummary {
    /// Whether the span gets the status `error`: some pushes were not processed, not sent or unknown, or some were
    /// rejected and none was accepted. Every list contains some devices that no longer exist, so a few rejections are
    /// no failure.
    fileprivate var isSuspicious: Bool {
        self.notProcessed + self.notSent + self.unknown > 0 || self.rejected > 0 && self.accepted == 0
    }

    fileprivate var text: String {
        """
        \(self.accepted) accepted, \(self.rejected) rejected, \(self.notProcessed) not processed, \
        \(self.notSent) not sent, \(self.unknown) unknown
        """
    }
}
