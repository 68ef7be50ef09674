/// Limits the streams of a connection while its send window is the bottleneck. Without this limit, all streams that the
/// peer allows would be filled with requests that can only wait, while another connection could send them. Pure.
struct WindowStreamLimit {
    /// The number of streams; nil: the window is not the bottleneck.
    private(set) var limit: Int?
    /// How many requests had ever been held at each of the last four checks, the oldest first. On a thin network, more
    /// connections carry no more pushes, so a queue of a second is no reason for them.
    private var marks = [0, 0, 0, 0]

    /// Checks the held requests. Called every half second while requests are held or a limit exists.
    ///
    /// If a request was held four checks ago already, the streams in flight are all that the window carries. The
    /// limit is then twice their number, so that the next requests are at hand when the window grows. The limit doubles
    /// at each check without a held request, until it reaches `maximum` and is removed.
    ///
    /// - Parameters:
    ///   - oldest: The number of the request that has been held longest; nil if none is held.
    ///   - total: How many requests have ever been held.
    ///   - inFlight: The number of open streams, without held requests.
    ///   - maximum: The number of streams that the peer allows.
    /// - Returns: How many held requests may continue to wait; nil: all of them.
    mutating func check(oldest: Int?, total: Int, inFlight: Int, maximum: Int) -> Int? {
        let mark = self.marks.removeFirst()
        self.marks.append(total)
        guard let oldest else {
            if let limit { self.set(limit * 2, maximum) }
            return nil
        }
        guard oldest < mark else { return nil }
        self.set(max(1, inFlight * 2), maximum)
        // The pool gives a bulk call only a part of the limit. If more requests waited here, they would take the
        // streams that it reserves for single pushes.
        return self.limit == nil ? nil : inFlight / 2
    }

    private mutating func set(_ limit: Int, _ maximum: Int) {
        self.limit = limit < maximum ? limit : nil
    }
}
