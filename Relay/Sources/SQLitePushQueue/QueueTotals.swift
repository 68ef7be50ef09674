import PushQueue

/// The number of pushes in each state, by the id of their route.
struct QueueTotals: Sendable, Hashable {
    struct OfRoute: Sendable, Hashable {
        var queued = 0
        var claimed = 0
        var written = 0
        var parked = 0
    }

    private(set) var routes: [Int64: OfRoute] = [:]
    /// Pushes without an outcome.
    private(set) var unsettled = 0

    /// Removes a route that has no pushes.
    private mutating func forget(_ route: Int64) {
        if self.routes[route] == OfRoute() { self.routes[route] = nil }
    }

    mutating func add(_ number: Int, to state: PushStatus.State, of route: Int64) {
        switch state {
        case .queued: self.routes[route, default: OfRoute()].queued += number
        case .claimed: self.routes[route, default: OfRoute()].claimed += number
        case .written: self.routes[route, default: OfRoute()].written += number
        case .parked: self.routes[route, default: OfRoute()].parked += number
        case .settled: return
        }
        self.unsettled += number
        // Copies of the totals are made often, so only routes with pushes are kept.
        self.forget(route)
    }
}
