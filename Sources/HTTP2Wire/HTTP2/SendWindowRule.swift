/// How much of the connection's send window a request must leave (RFC 9113, section 5.2).
struct SendWindowRule {
    /// What bulk requests leave to others, in bytes: room for a few bodies. A quarter of a window that is smaller than
    /// four times this.
    static let bulkReserve = 16 * 1024

    /// What holds requests back. A server may refill the window when less is left than the reserve, or than a body
    /// needs; with such a server each of these would wait for the other.
    enum Strictness: Int, Comparable {
        /// A body begins when there is any room.
        case anyRoom
        /// A body begins when there is room for all of it.
        case wholeBody
        /// The same, and bulk leaves the reserve.
        case reserve

        static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    }

    /// The largest window that was seen.
    private(set) var largest = 0
    private(set) var strictness = Strictness.reserve
    /// What the server has proved that it needs: `strictness` goes back to no more than this.
    private var proven = Strictness.reserve

    /// Whether a body may begin now.
    ///
    /// - Parameters:
    ///   - window: the connection's send window.
    ///   - committed: the bytes of bodies that have begun and are not written yet.
    mutating func admits(_ bodyCount: Int, isBulk: Bool, window: Int, committed: Int) -> Bool {
        self.largest = max(self.largest, window)
        let reserve = isBulk && self.strictness == .reserve ? min(Self.bulkReserve, self.largest / 4) : 0
        let room = window - committed - reserve
        // A body that never fits goes in parts.
        return room >= bodyCount || (room > 0 && (self.strictness == .anyRoom || bodyCount > self.largest - reserve))
    }

    /// The server has refilled the window.
    mutating func windowGrew() { self.strictness = self.proven }

    /// Demands less from now on, until the window grows.
    ///
    /// - Parameter isProof: the server has answered all that it got, so it refills only below what was demanded. Then
    ///   it holds as long as the connection.
    /// - Returns: whether less can be demanded at all.
    mutating func relax(isProof: Bool) -> Bool {
        guard let next = Strictness(rawValue: self.strictness.rawValue - 1) else { return false }
        self.strictness = next
        if isProof { self.proven = min(self.proven, next) }
        return true
    }
}
