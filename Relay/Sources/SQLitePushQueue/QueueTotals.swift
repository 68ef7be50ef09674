import PushQueue

/// The number of pushes in each state, by the id of their route.
package struct QueueTotals: Sendable, Hashable {
    package struct OfRoute: Sendable, Hashable {
        package internal(set) var queued = 0
        package internal(set) var claimed = 0
        package internal(set) var written = 0
        package internal(set) var parked = 0
    }

    package private(set) var routes: [Int64: OfRoute] = [:]
    /// Pushes without an outcome.
    package private(set) var unsettled = 0

    mutating func add(_ number: Int, to state: PushStatus.State, of route: Int64) {
        switch state {
        case .queued: self.routes[route, default: OfRoute()].queued += number
        case .claimed: self.routes[route, default: OfRoute()].claimed += number
        case .written: self.routes[route, default: OfRoute()].written += number
        case .parked: self.routes[route, default: OfRoute()].parked += number
        case .settled: return
        }
        self.unsettled += number
    }
}
