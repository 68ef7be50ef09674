import NIOCore

/// Decides when a connection of the API has taken too long.
///
/// - The idle timeout limits how long a connection may be idle, and how long the head of a request may take to arrive.
/// - A body must arrive within the request timeout, without a pause longer than the idle timeout. A slow trickle of
///   bytes does not extend the request timeout.
/// - The body of a batch may take longer, as long as bytes arrive when the relay is ready for them.
/// - The caller must receive a response within the request timeout.
///
/// There is no time limit while the relay works on a request that has arrived completely.
///
/// If the relay responds before a request has arrived completely, the connection ends with this response. The remaining
/// bytes of the request are read and discarded for at most ``Limits/linger``. Without that, the connection would be
/// closed with unread bytes and therefore reset, and the caller might lose the response (RFC 9112 §9.6).
struct ConnectionMachine {
    struct Limits {
        /// The time limit for a request's body to arrive, and for a response to be received.
        var request: TimeAmount
        /// The longest time without a received byte.
        var idle: TimeAmount
        /// How long the rest of a refused request is read and discarded.
        var linger = TimeAmount.seconds(2)
    }

    /// What happens when a time limit is over.
    enum Timeout: Hashable {
        case close
        /// End the request's body with an error. The response follows.
        case failRequest
    }

    private struct Arrival {
        var began: NIODeadline
        var last: NIODeadline
        /// When the body was ended with an error.
        var failed: NIODeadline?
        /// Whether the body may take as long as it wants, without a pause.
        var isLong: Bool
    }

    private let limits: Limits
    /// The number of requests whose head was read and whose response has not ended.
    private var unanswered = 0
    /// The request that is arriving.
    private var arrival: Arrival?
    private var responseBegan: NIODeadline?
    private var idleSince: NIODeadline
    private var lingersSince: NIODeadline?
    /// Whether the relay is ready for more bytes. While it stores what has arrived, it is not.
    private var isReading = true

    init(_ limits: Limits, now: NIODeadline) {
        self.limits = limits
        self.idleSince = now
    }

    /// Whether the connection only waits until the caller closes it. Received bytes are discarded.
    var isLingering: Bool { self.lingersSince != nil }

    /// When to call ``timerFired(_:)``; nil if no time limit applies now.
    var deadline: NIODeadline? {
        if let since = self.lingersSince { return since + self.limits.linger }
        if let began = self.responseBegan { return began + self.limits.request }
        if let arrival = self.arrival {
            if let failed = arrival.failed { return failed + self.limits.idle }
            if arrival.isLong { return self.isReading ? arrival.last + self.limits.idle : nil }
            return min(arrival.began + self.limits.request, arrival.last + self.limits.idle)
        }
        return self.unanswered == 0 ? self.idleSince + self.limits.idle : nil
    }

    /// - Parameter isLong: whether the request's body may take longer than other bodies.
    mutating func receivedHead(_ now: NIODeadline, isLong: Bool = false) {
        self.unanswered += 1
        self.arrival = Arrival(began: now, last: now, isLong: isLong)
    }

    /// The relay is ready for more bytes.
    mutating func beginReading(_ now: NIODeadline) {
        if !self.isReading { self.arrival?.last = now }
        self.isReading = true
    }

    mutating func receivedBody(_ now: NIODeadline) {
        self.arrival?.last = now
        self.isReading = false
    }

    mutating func receivedEnd() { self.arrival = nil }

    /// Records that the head of a response is about to be written.
    ///
    /// - Returns: whether the head must announce the end of the connection.
    mutating func beginResponse(_ now: NIODeadline) -> Bool {
        self.responseBegan = now
        return self.endsWithResponse
    }

    /// Records that the end of a response is about to be written.
    ///
    /// - Returns: whether the connection ends. If so, close its sending side and discard received bytes.
    mutating func endResponse(_ now: NIODeadline) -> Bool {
        let ends = self.endsWithResponse
        // There is also a response to bytes that are not HTTP. It belongs to no request.
        self.unanswered = max(0, self.unanswered - 1)
        self.idleSince = now
        return ends
    }

    /// Records that the operating system has taken all bytes of a response.
    mutating func responseWritten(_ now: NIODeadline, ends: Bool) {
        self.responseBegan = nil
        self.idleSince = now
        if ends { self.lingersSince = now }
    }

    /// Records that the relay is shutting down.
    ///
    /// - Returns: whether a request is arriving, which must then end with an error. It has had no effect.
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

    /// Whether the next response ends the connection, because its request has not arrived completely, or because it
    /// belongs to no request.
    private var endsWithResponse: Bool {
        self.unanswered == 0 || (self.unanswered == 1 && self.arrival != nil)
    }
}
