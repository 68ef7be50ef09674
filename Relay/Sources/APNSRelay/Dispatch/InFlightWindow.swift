import APNSModel
import PushQueue
import Synchronization

/// Limits the number of pushes, of all routes together, that are marked as written and have no durable outcome yet.
/// These are the pushes that a crash can leave `unknown`.
///
/// Each such push holds a place in the window. A route may hold at most four times as many places as are free. So one
/// route alone uses four fifths of the window, and each further route four fifths of the rest. A few stuck routes
/// therefore leave room for others.
///
/// The bulk routes of one caller together use at most nine tenths of the window, and those of each further caller nine tenths
/// of the rest. So many batches of one caller leave room for the pushes of others, and for its own interactive ones. A
/// fiftieth of the window is for interactive routes only.
final class InFlightWindow: Sendable {
    private struct State {
        var limit: Int
        var inFlight = 0
        /// The places that the bulk routes of each caller hold.
        var bulk: [String: Int] = [:]
        /// The places that all bulk routes hold.
        var allBulk = 0
        var waiting: [UInt64: CheckedContinuation<Void, Never>] = [:]
        var nextID: UInt64 = 0
        var generation: UInt64 = 0

        mutating func add(_ count: Int, _ route: Route) {
            self.inFlight += count
            guard route.lane == .bulk, count != 0 else { return }
            self.allBulk += count
            let places = (self.bulk[route.caller] ?? 0) + count
            self.bulk[route.caller] = places == 0 ? nil : places
        }
    }

    private let state: Mutex<State>

    init(limit: Int) {
        self.state = Mutex(State(limit: max(limit, 1)))
    }

    /// Changes the limit. Places above a smaller limit stay reserved until they are returned.
    func setLimit(_ limit: Int) { self.wake { $0.limit = max(limit, 1) } }

    var inFlight: Int { self.state.withLock { $0.inFlight } }

    /// Reserves places. There may be fewer than wanted.
    ///
    /// - Parameters:
    ///   - wanted: the maximum number of places to reserve.
    ///   - held: the number of places that the route already holds.
    ///   - route: the route.
    /// - Returns: the number of reserved places; 0 if there is no room.
    func reserve(_ wanted: Int, held: Int, of route: Route) -> Int {
        self.state.withLock { state in
            var count = Self.room(
                limit: state.limit,
                inFlight: state.inFlight,
                held: held,
                bulk: route.lane == .bulk ? state.bulk[route.caller] ?? 0 : nil,
                wanted: wanted
            )
            // However many callers have bulk routes, some places are for interactive ones.
            let mostBulk = state.limit == 1 ? 1 : state.limit - max(1, state.limit / 50)
            if route.lane == .bulk { count = min(count, max(0, mostBulk - state.allBulk)) }
            state.add(count, route)
            return count
        }
    }

    /// - Parameter bulk: the places that the bulk routes of the caller hold; nil for an interactive route.
    static func room(limit: Int, inFlight: Int, held: Int, bulk: Int? = nil, wanted: Int) -> Int {
        let free = limit - inFlight
        guard free > 0 else { return 0 }
        // The largest n with held + n <= 4 × (free - n).
        let share = max((4 * free - held) / 5, 0)
        let room = min(wanted, free, held == 0 ? max(share, 1) : share)
        guard let bulk, bulk > 0 else { return room }
        // The largest n with bulk + n <= 9 × (free - n).
        return min(room, max((9 * free - bulk) / 10, 0))
    }

    /// Gives places back, and lets waiting routes try again.
    func release(_ count: Int, of route: Route) {
        guard count > 0 else { return }
        self.wake { $0.add(-count, route) }
    }

    /// Lets waiting routes try again.
    func wakeAll() { self.wake { _ in } }

    private func wake(_ change: (inout State) -> Void) {
        let waiting = self.state.withLock { state in
            change(&state)
            state.generation &+= 1
            defer { state.waiting = [:] }
            return state.waiting.values
        }
        for continuation in waiting { continuation.resume() }
    }

    /// A number that changes with each release. Read it before you decide to wait, so that you miss no release.
    var generation: UInt64 { self.state.withLock { $0.generation } }

    /// Returns when the present generation differs from this one, or when the task is cancelled.
    func waitForRelease(since generation: UInt64) async {
        let id = self.state.withLock { state in
            state.nextID &+= 1
            return state.nextID
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let mayWait = self.state.withLock { state in
                    guard state.generation == generation, !Task.isCancelled else { return false }
                    state.waiting[id] = continuation
                    return true
                }
                if !mayWait { continuation.resume() }
            }
        } onCancel: {
            self.state.withLock { $0.waiting.removeValue(forKey: id) }?.resume()
        }
    }
}
