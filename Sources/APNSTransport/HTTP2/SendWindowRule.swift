/// Decides how much of the connection's send window a request must leave free (RFC 9113, section 5.2).
struct SendWindowRule {
    /// How many bytes bulk requests leave to others: enough for a few bodies. If the largest window so far is smaller
    /// than four times this, they leave a quarter of that window.
    static let bulkReserve = 16 * 1024

    /// When a request may be sent. Some servers refill the window only when less of it is left than the reserve, or
    /// than a body needs. Client and server would then wait for each other, so the rule can be relaxed.
    enum Strictness: Int, Comparable {
        /// A body may begin if any of it fits.
        case anyRoom
        /// A body may begin if all of it fits.
        case wholeBody
        /// A body may begin if all of it fits, and bulk bodies leave the reserve free.
        case reserve

        static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    }

    /// The largest window seen so far.
    private(set) var largest = 0
    private(set) var strictness = Strictness.reserve
    /// The server has been proved not to work with any stricter level. `strictness` never returns above it.
    private var proven = Strictness.reserve

    /// Whether a body may begin now.
    ///
    /// - Parameters:
    ///   - bodyCount: The size of the body in bytes.
    ///   - isBulk: Whether the request is bulk work.
    ///   - window: The connection's send window in bytes.
    ///   - committed: Bytes of bodies that have begun and are not written yet.
    mutating func admits(_ bodyCount: Int, isBulk: Bool, window: Int, committed: Int) -> Bool {
        self.largest = max(self.largest, window)
        let reserve = isBulk && self.strictness == .reserve ? min(Self.bulkReserve, self.largest / 4) : 0
        let room = window - committed - reserve
        // A body that can never fit is sent in parts.
        return room >= bodyCount || (room > 0 && (self.strictness == .anyRoom || bodyCount > self.largest - reserve))
    }

    /// The server has enlarged the window.
    mutating func windowGrew() { self.strictness = self.proven }

    /// Relaxes the rule by one level, until the window grows.
    ///
    /// - Parameter isProof: Whether the server has responded to everything it received, which proves that it refills
    ///   the window only below the level required so far. The relaxation then lasts as long as the connection.
    /// - Returns: Whether the rule was relaxed: `false` if it was already at its last level.
    mutating func relax(isProof: Bool) -> Bool {
        guard let next = Strictness(rawValue: self.strictness.rawValue - 1) else { return false }
        self.strictness = next
        if isProof { self.proven = min(self.proven, next) }
        return true
    }
}
