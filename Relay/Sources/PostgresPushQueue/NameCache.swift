import CLibpq
import PushQueue
import Synchronization

/// The numbers that stand for routes in the tables and for types. They change only if a backup is restored.
///
/// Each batch has a route of its own, and only one relay forgets it. So a full cache begins again.
final class NameCache: Sendable {
    private struct State {
        var routes: [Route: Int32] = [:]
        var types: [String: Oid] = [:]
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

    /// The number of a type.
    subscript(type name: String) -> Oid? {
        get { self.state.withLock { $0.types[name] } }
        set { self.state.withLock { $0.types[name] = newValue } }
    }

    func removeAll() { self.state.withLock { $0 = State() } }
}
