import APNSPool

/// What `--resume` does with a line that has a row. Pure.
enum LineProspect: UInt8, CaseIterable, Sendable {
    /// The line is done.
    case done
    /// The push is sent again, because it may be accepted as it is.
    case remaining
    /// The push is sent again, but only a correction helps: APNs rejected the device token, which probably belongs to
    /// another environment or topic.
    case misdirected

    /// - Parameter resendsUnknown: whether a push whose fate is unknown is sent again.
    init(_ certainty: Certainty, _ advice: Advice, resendsUnknown: Bool) {
        switch certainty {
        case .accepted:
            self = .done
        case .unknown:
            self = resendsUnknown ? .remaining : .done
        case .rejected where advice == .checkEnvironment:
            self = .misdirected
        case .rejected, .notProcessed, .notSent:
            let isResendable = [.resend, .wait, .checkEnvironment, .fixCredential].contains(advice)
            self = isResendable ? .remaining : .done
        }
    }
}
