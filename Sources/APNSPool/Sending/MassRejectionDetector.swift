import APNSModel

/// Detects a wrong environment or topic by the number of rejected device tokens. Without it, such a mistake would look
/// like a million invalid tokens. Pure.
///
/// It records accepted pushes only while there are rejections in the window, so it costs nothing in normal operation.
/// It assumes that all tokens before the first rejection were valid. If a token in the window gets a further response,
/// it keeps its place and takes the new result.
struct MassRejectionDetector: Sendable {
    private struct Entry {
        var token: Int
        var isRejected: Bool
    }

    let limits: MassRejectionLimits
    /// The most recent tokens; a ring buffer once it is full.
    private var ring: [Entry] = []
    private var places: [Int: Int] = [:]
    private var next = 0
    private(set) var rejections = 0
    /// The window size: `limits.window`, or the number of pushes in flight at a rejection if that was larger (`widen`).
    /// Becomes `limits.window` again when no rejection is left in the window.
    private(set) var window: Int
    /// True from the moment the rejections reach the limit until they fall below half of it.
    private(set) var isOpen = false

    init(limits: MassRejectionLimits) {
        self.limits = limits
        self.window = limits.window
    }

    /// The number of rejections in the window at which mass rejection is detected.
    var limit: Int {
        // `.max` turns the detector off. Otherwise the limit is the configured share of the current window, rounded up.
        // The product cannot overflow, because both numbers are at most 100,000.
        guard self.limits.rejections <= self.limits.window else { return .max }
        return (self.limits.rejections * self.window + self.limits.window - 1) / self.limits.window
    }

    /// Widens the window to the number of pushes in flight, up to 100,000.
    mutating func widen(to inFlight: Int) {
        guard inFlight > self.window else { return }
        if self.next > 0 {
            // Puts the oldest entry first, so that new entries can be appended.
            self.ring = Array(self.ring[self.next...] + self.ring[..<self.next])
            self.next = 0
            for place in self.ring.indices { self.places[self.ring[place].token] = place }
        }
        self.window = min(inFlight, 100_000)
    }

    /// Whether tokens that work must be recorded.
    var isAttentive: Bool { self.rejections > 0 }

    /// Whether this rejection can be caused by a wrong environment or topic.
    static func counts(_ rejection: Rejection) -> Bool {
        switch rejection.reason {
        case .some(.badDeviceToken), .some(.deviceTokenNotForTopic), .some(.topicDisallowed): true
        default: false
        }
    }

    /// Records a rejected device token. Returns true if it is the one at which mass rejection is detected.
    mutating func rejected(_ token: DeviceToken) -> Bool {
        guard self.limit < .max else { return false }
        self.put(token.hashValue, isRejected: true)
        guard !self.isOpen, self.rejections >= self.limit else { return false }
        self.isOpen = true
        return true
    }

    /// Records a push that was accepted, or a token that is no longer registered, which also proves that the
    /// environment and topic are right. Returns true if this ends it.
    mutating func recordWorkingToken(_ token: DeviceToken) -> Bool {
        guard self.isAttentive else { return false }
        self.put(token.hashValue, isRejected: false)
        let closes = self.isOpen && self.rejections * 2 < self.limit
        if closes { self.isOpen = false }
        if self.rejections == 0 {
            self.ring.removeAll(keepingCapacity: true)
            self.places.removeAll(keepingCapacity: true)
            self.next = 0
            self.window = self.limits.window
        }
        return closes
    }

    private mutating func put(_ token: Int, isRejected: Bool) {
        if let place = self.places[token] {
            self.count(isRejected, insteadOf: self.ring[place].isRejected)
            self.ring[place].isRejected = isRejected
        } else if self.ring.count < self.window {
            self.places[token] = self.ring.count
            self.ring.append(Entry(token: token, isRejected: isRejected))
            self.count(isRejected, insteadOf: false)
        } else {
            self.places[self.ring[self.next].token] = nil
            self.places[token] = self.next
            self.count(isRejected, insteadOf: self.ring[self.next].isRejected)
            self.ring[self.next] = Entry(token: token, isRejected: isRejected)
            self.next = (self.next + 1) % self.window
        }
    }

    private mutating func count(_ isRejected: Bool, insteadOf wasRejected: Bool) {
        self.rejections += (isRejected ? 1 : 0) - (wasRejected ? 1 : 0)
    }
}
