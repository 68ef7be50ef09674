import APNSModel

/// The mass-rejection breaker: a wrong environment must never look like a million dead tokens. Pure.
///
/// It looks at accepted pushes only while refused ones are among the last, so that it costs nothing when all is well; all
/// tokens before the first refusal count as good ones. A token that is answered again keeps its place, with its new
/// answer.
struct MassRejectionBreaker: Sendable {
    private struct Entry {
        var token: Int
        var isRejected: Bool
    }

    let limits: MassRejectionLimits
    /// The last tokens; a ring once it is full.
    private var ring: [Entry] = []
    private var places: [Int: Int] = [:]
    private var next = 0
    private(set) var rejections = 0
    /// `limits.window`, or more while more is in flight.
    private(set) var window: Int
    /// From the moment in which there were too many refusals until there are fewer than half as many.
    private(set) var isOpen = false

    init(limits: MassRejectionLimits) {
        self.limits = limits
        self.window = limits.window
    }

    /// How many refusals in the window are too many.
    var limit: Int {
        // Off, or the share of the window rounded up; the numbers are at most 100,000 each.
        guard self.limits.rejections <= self.limits.window else { return .max }
        return (self.limits.rejections * self.window + self.limits.window - 1) / self.limits.window
    }

    /// So many pushes are in flight.
    mutating func widen(to inFlight: Int) {
        guard inFlight > self.window else { return }
        if self.next > 0 {
            // The oldest entry first, so that there is room behind the newest.
            self.ring = Array(self.ring[self.next...] + self.ring[..<self.next])
            self.next = 0
            for place in self.ring.indices { self.places[self.ring[place].token] = place }
        }
        self.window = min(inFlight, 100_000)
    }

    /// Whether a response that is no refusal has to be counted.
    var isAttentive: Bool { self.rejections > 0 }

    /// Whether this response speaks of a wrong environment or topic.
    static func counts(_ rejection: Rejection) -> Bool {
        switch rejection.reason {
        case .some(.badDeviceToken), .some(.deviceTokenNotForTopic), .some(.topicDisallowed): true
        default: false
        }
    }

    /// A device token was refused. True: this one was too much.
    mutating func rejected(_ token: DeviceToken) -> Bool {
        guard self.limit < .max else { return false }
        self.put(token.hashValue, isRejected: true)
        guard !self.isOpen, self.rejections >= self.limit else { return false }
        self.isOpen = true
        return true
    }

    /// A push was accepted, or its token called dead, which also proves that environment and topic are right. True: the
    /// breaker was open, and is not any more.
    mutating func recordResponse(_ token: DeviceToken) -> Bool {
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
