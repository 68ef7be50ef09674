import NIOCore

/// Decides when a connection of the API has taken too long.
///
/// - The idle timeout limits how long a connection may be idle, and how long a request's head may take to arrive.
/// - A body must arrive within the request timeout, without a pause longer than the idle timeout. Bytes that trickle in
///   do not extend the request timeout.
/// - The caller must receive a response within the request timeout.
///
/// There is no time limit while the relay works on a request that has arrived.
///
/// A response to a request that has not arrived completely ends the connection: its remaining bytes are discarded for at
/// most ``Limits/linger``, because a connection that is closed with unread bytes is reset, and the caller may then
/// lose the response (RFC 9112 §9.6).
struct ConnectionMachine {
    struct Limits {
        /// The time limit for a request's body to arrive, and for a response to be received.
        var request: TimeAmount
        /// The longest time without a received byte.
        var idle: TimeAmount
        /// The time for which the rest of a refused request is discarded.
        var linger = TimeAmount.seconds(2)
    }

    /// The action when the time is up.
    enum Timeout: Hashable {
        case close
        /// The request's body ends with an error. The response follows.
        case failRequest
    }

    private struct Arrival {
        var began: NIODeadline
        var last: NIODeadline
        /// When the body was ended with an error.
        var failed: NIODeadline?
    }

    private let limits: Limits
    /// Requests whose head was read and whose response has not ended.
    private var unanswered = 0
    /// The request that is arriving.
    private var arrival: Arrival?
    private var responseBegan: NIODeadline?
    private var idleSince: NIODeadline
    private var lingersSince: NIODeadline?

    init(_ limits: Limits, now: NIODeadline) {
        self.limits = limits
        self.idleSince = now
    }

    /// Whether the connection only waits for the caller to close it. What arrives is discarded.
    var isLingering: Bool { self.lingersSince != nil }

    /// Whether no request is arriving or in progress. Bytes of an incomplete head do not count.
    var isIdle: Bool { self.unanswered == 0 }

    /// When to call ``timerFired(_:)``; nil if nothing limits the time now.
    var deadline: NIODeadline? {
        if let since = self.lingersSince { return since + self.limits.linger }
        if let began = self.responseBegan { return began + self.limits.request }
        if let arrival = self.arrival {
            if let failed = arrival.failed { return failed + self.limits.idle }
            return min(arrival.began + self.limits.request, arrival.last + self.limits.idle)
        }
        return self.unanswered == 0 ? self.idleSince + self.limits.idle : nil
    }

    mutating func receivedHead(_ now: NIODeadline) {
        self.unanswered += 1
        self.arrival = Arrival(began: now, last: now)
    }

    mutating func receivedBody(_ now: NIODeadline) { self.arrival?.last = now }

    mutating func receivedEnd() { self.arrival = nil }

    /// The head of a response is about to be written.
    ///
    /// - Returns: whether it must announce that the connection ends.
    mutating func beginResponse(_ now: NIODeadline) -> Bool {
        self.responseBegan = now
        return self.endsWithResponse
    }

    /// The end of a response is about to be written.
    ///
    /// - Returns: whether the connection ends: close its sending side and discard what arrives.
    mutating func endResponse(_ now: NIODeadline) -> Bool {
        let ends = self.endsWithResponse
        // The response to bytes that are not HTTP belongs to no request.
        self.unanswered = max(0, self.unanswered - 1)
        self.idleSince = now
        return ends
    }

    /// All bytes of a response were taken by the system.
    mutating func responseWritten(_ now: NIODeadline, ends: Bool) {
        self.responseBegan = nil
        self.idleSince = now
        if ends { self.lingersSince = now }
    }

    /// The relay is shutting down.
    ///
    /// - Returns: whether the request that is arriving must end with an error. It has had no effect.
    mutating func shutDown(_ now: NIODeadline) -> Bool {
        guard self.arrival != nil, self.arrival?.failed == nil else { return false }
        self.arrival?.failed = now
        return true
    }

    mutating func timerFired(_ now: NIODeadline) -> Timeout? {
        guard let deadline = self.deadline, now >= deadline else { return nil }
        guard !self.isLingering, self.responseBegan == nil, self.arrival != nil, self.arrival?.failed == nil else {
            return .close
        }
        self.arrival?.failed = now
        return .failRequest
    }

    /// Whether the next response belongs to a request that has not arrived completely, or to none.
    private var endsWithResponse: Bool {
        self.unanswered == 0 || (self.unanswered == 1 && self.arrival != nil)
    }
}
