import NIOCore

/// The life of one connection: from connecting to its end, and which error explains the end. Pure.
///
/// ```
///   connecting ──SETTINGS──▶ ready ──GOAWAY, drain──▶ draining
///        └──────────────┬──────┴──────────────────────────┘
///                       ▼
///                    closed
/// ```
struct ConnectionLife {
    enum State {
        /// Look-up, TCP, TLS, or waiting for the peer's SETTINGS.
        case connecting
        case ready
        /// Accepts no new streams, and closes when the open ones have ended.
        case draining
        case closed
    }

    enum Settings: Equatable {
        /// The first SETTINGS: requests may be submitted.
        case ready
        /// The peer may allow another number of streams.
        case changed
        /// They no longer matter.
        case late
    }

    private(set) var state = State.connecting
    /// When the connection must be ready.
    private(set) var connectDeadline = NIODeadline.distantFuture
    private var goAway: WireError?
    private var goAwayHasReason = false
    /// The first error explains the end; later ones are only its consequences.
    private var firstError: WireError?

    /// Whether the peer and the connection exchange frames.
    var isOpen: Bool { self.state == .ready || self.state == .draining }

    mutating func began(deadline: NIODeadline) { self.connectDeadline = deadline }

    mutating func receivedSettings() -> Settings {
        switch self.state {
        case .connecting:
            self.state = .ready
            self.connectDeadline = .distantFuture
            return .ready
        case .ready: return .changed
        case .draining, .closed: return .late
        }
    }

    /// Records a GOAWAY.
    ///
    /// - Returns: what to report; nil after the first one. A later one may add the reason that the first one lacks.
    mutating func receivedGoAway(_ code: HTTP2ErrorCode, debugData: [UInt8]) -> WireError? {
        let reason = PeerText.printable(debugData)
        let isFirst = self.goAway == nil
        guard isFirst || (!self.goAwayHasReason && !reason.isEmpty) else { return nil }
        self.goAwayHasReason = !reason.isEmpty
        let detail = reason.isEmpty ? "" : ", debug data: \(reason)"
        let isCredential = reason.contains("BadCertificate")
        let error = WireError(
            isCredential ? .clientCertificateRefused : .goAway,
            "the peer sent GOAWAY (\(code))\(detail)"
        )
        self.goAway = error
        guard isFirst else { return nil }
        if self.state == .connecting { self.firstError = error }
        if self.state == .ready { self.state = .draining }
        return error
    }

    /// Accepts no new streams.
    mutating func drain() { if self.state == .ready { self.state = .draining } }

    /// The error with which a connection that drains ends now; nil as long as streams are open.
    func endOfDrain(openStreams: Int) -> WireError? {
        guard self.state == .draining, openStreams == 0 else { return nil }
        return self.goAway ?? WireError(.closedLocally, "the connection was drained")
    }

    /// Records why the connection must end.
    ///
    /// - Returns: false if it has ended.
    mutating func failed(_ error: WireError) -> Bool {
        guard self.state != .closed else { return false }
        self.firstError = self.firstError ?? error
        return true
    }

    /// Records the end of the connection.
    mutating func closed() { self.state = .closed }

    /// Why the connection has ended. A flood after a GOAWAY must not look like an ordinary end: the wait before the next
    /// connection depends on it.
    func explanation(_ error: WireError) -> WireError {
        error.code == .flooded ? error : self.firstError ?? self.goAway ?? error
    }
}
