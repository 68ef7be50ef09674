import PushQueue
import Synchronization

/// The numbers that stand for routes and callers in the tables. They never change.
final class NameCache: Sendable {
    private let state = Mutex((routes: [Route: Int32](), callers: [String: Int32]()))

    subscript(route: Route) -> Int32? {
        get { self.state.withLock { $0.routes[route] } }
        set { self.state.withLock { $0.routes[route] = newValue } }
    }

    subscript(caller caller: String) -> Int32? {
        get { self.state.withLock { $0.callers[caller] } }
        set { self.state.withLock { $0.callers[caller] = newValue } }
    }
}
