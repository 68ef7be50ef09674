import PushQueue
import Synchronization

/// The numbers that stand for routes and callers in the tables. They change only if a backup is restored.
///
/// Each batch has a route of its own, and only one relay forgets it. So a full cache begins again.
final class NameCache: Sendable {
    private struct State {
        var routes: [Route: Int32] = [:]
        var callers: [String: Int32] = [:]
    }

    /// The maximum number of names of each kind.
    static let limit = 10_000

    private let state = Mutex(State())

    subscript(route: Route) -> Int32? {
        get { self.state.withLock { $0.routes[route] } }
        set { self.state.withLock { Self.set(newValue, for: route, in: &$0.routes) } }
    }

    subscript(caller caller: String) -> Int32? {
        get { self.state.withLock { $0.callers[caller] } }
        set { self.state.withLock { Self.set(newValue, for: caller, in: &$0.callers) } }
    }

    func removeAll() { self.state.withLock { $0 = State() } }

    private static func set<Name: Hashable>(_ number: Int32?, for name: Name, in numbers: inout [Name: Int32]) {
        if numbers.count >= self.limit { numbers.removeAll(keepingCapacity: true) }
        numbers[name] = number
    }
}
