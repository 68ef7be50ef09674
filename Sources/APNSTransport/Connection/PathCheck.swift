package import NIOCore

/// Decides when a connection sends a PING (RFC 9113, section 6.7), and when the path to its peer counts as lost. A
/// value; time is a parameter.
///
/// NAT routers and firewalls forget quiet connections, often after four to six minutes, and most do so silently.
/// Therefore PINGs keep an idle connection known to them, and a connection that has been quiet for a while is checked
/// before a request is sent on it. If a busy connection is silent for a few seconds, a PING is sent, too, and new
/// requests wait until any bytes arrive. A request that is held has not been sent, so it may use another connection.
package struct PathCheck: Sendable {
    package struct Limits: Sendable, Equatable {
        /// While no stream is open, a PING is sent after this time without incoming bytes.
        package var idle = TimeAmount.seconds(60)
        /// While streams are open, a PING is sent after this time without incoming bytes, or after four round trips if
        /// that is longer.
        package var busy = TimeAmount.seconds(2)
        /// How long the acknowledgement of such a PING may take.
        package var acknowledgement = TimeAmount.seconds(5)
        /// If no stream is open and no bytes have arrived for longer than this, the next request waits for the
        /// acknowledgement of a PING.
        package var trust = TimeAmount.seconds(15)
        /// How long that acknowledgement may take.
        package var check = TimeAmount.seconds(2)

        package init() {}
    }

    package enum Decision: Equatable {
        case nothing
        case ping
        /// The peer has not acknowledged a PING in time.
        case pathIsLost
    }

    private let limits: Limits
    private var lastRead: NIODeadline
    /// When the connection last went from no open stream to one.
    private var busySince: NIODeadline
    /// The deadline for the acknowledgement of the outstanding PING.
    private var pingDeadline: NIODeadline?
    /// When the unacknowledged PING was sent, even if its acknowledgement is no longer awaited.
    private var pingSent: NIODeadline?
    /// Whether requests wait for an acknowledgement. After a PING of `timer`, they wait for any bytes, and this is
    /// `false`.
    private(set) var isChecking = false
    /// The round-trip time of the PINGs so far, smoothed as in TCP (RFC 6298).
    private var roundTrip: TimeAmount?

    init(limits: Limits, now: NIODeadline) {
        self.limits = limits
        self.lastRead = now
        self.busySince = now
    }

    /// Called before the first request is submitted after a time without any open stream.
    mutating func becomesBusy(_ now: NIODeadline) -> Decision {
        self.busySince = now
        guard !self.isChecking, now - self.lastRead > self.limits.trust else { return .nothing }
        self.isChecking = true
        let deadline = now + self.limits.check
        // A PING that is already outstanding is sufficient.
        guard let pingDeadline else { return self.sendPing(now, deadline) }
        self.pingDeadline = min(pingDeadline, deadline)
        return .nothing
    }

    /// Whether the path must be checked before the next request, or is being checked for the requests that wait.
    func isSuspect(_ now: NIODeadline, openStreams: Int) -> Bool {
        now - self.lastRead > self.limits.trust && (openStreams == 0 || self.isChecking)
    }

    /// Bytes have arrived. They show that the path works, but only an acknowledgement ends a check.
    ///
    /// - Returns: Whether `deadline(openStreams:)` may be earlier than before.
    mutating func read(_ now: NIODeadline) -> Bool {
        self.lastRead = now
        guard self.pingDeadline != nil, !self.isChecking else { return false }
        self.pingDeadline = nil
        return true
    }

    /// A PING was acknowledged.
    ///
    /// - Returns: Whether requests were waiting for it.
    mutating func acknowledged(_ now: NIODeadline) -> Bool {
        if let pingSent {
            // A very late acknowledgement reflects an outage rather than the path's round-trip time.
            let measured = min(now - pingSent, self.limits.acknowledgement)
            self.roundTrip = self.roundTrip.map { $0 + .nanoseconds((measured - $0).nanoseconds / 8) } ?? measured
        }
        self.pingSent = nil
        self.pingDeadline = nil
        defer { self.isChecking = false }
        return self.isChecking
    }

    /// When `timer` must be called next.
    func deadline(openStreams: Int) -> NIODeadline {
        if let pingDeadline { return pingDeadline }
        guard openStreams > 0 else { return self.lastRead + self.limits.idle }
        return max(self.lastRead, self.busySince) + self.patience
    }

    mutating func timer(_ now: NIODeadline, openStreams: Int) -> Decision {
        guard now >= self.deadline(openStreams: openStreams) else { return .nothing }
        if self.pingDeadline != nil { return .pathIsLost }
        return self.sendPing(now, now + self.limits.acknowledgement)
    }

    private mutating func sendPing(_ now: NIODeadline, _ deadline: NIODeadline) -> Decision {
        self.pingDeadline = deadline
        self.pingSent = now
        return .ping
    }

    private var patience: TimeAmount {
        max(self.limits.busy, .nanoseconds(4 * (self.roundTrip?.nanoseconds ?? 0)))
    }
}
