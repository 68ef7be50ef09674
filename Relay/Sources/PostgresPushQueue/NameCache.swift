import CLibpq
import PushQueue
import Synchronization

/// The numbers that stand for routes and for the type of a push in the tables. They change only if a backup is restored.
///
/// Each batch has a route of its own, and only one relay forgets it. So a full cache begins again.
final class NameCache: Sendable {
    private struct State {
        var routes: [Route: Int32] = [:]
        var pushType: Oid?
    }

    /// The maximum number of routes.
    static let limit = 10_000

    private let state = Mutex(State())

    subscript(route: Route) -> Int32? {
        get { self.state.withLock { $0.routes[route] } }
        set {
            self.state.withLock { state in
                if state.routes.count >= Self.limit { state.routes.removeAll(keepingCapacity: true) }
                state.routes[route] = newValue
            }
        }
    }

    /// The number of the type `apns.new_push`.
    var pushType: Oid? {
        get { self.state.withLock { $0.pushType } }
        set { self.state.withLock { $0.pushType = newValue } }
    }

    func removeAll() { self.state.withLock { $0 = State() } }
}
