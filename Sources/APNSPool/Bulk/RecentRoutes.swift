/// The routes that the pushes of a bulk call were sent by. Removes routes that no push uses any more: an endless call
/// would otherwise retain every route that it ever used, and with it the session of every earlier credential.
struct RecentRoutes<Route: AnyObject> {
    private var routes: [Int32: Route] = [:]
    private var newest: (key: Int32, route: Route)?
    /// Unused routes are removed when there are this many. At least twice the number that was in use the last time, so
    /// that the search for them costs little.
    private var limit = 16

    /// Returns the key of the route, 0 or more.
    ///
    /// - Parameter keysInUse: returns the keys that pushes still have. Seldom called.
    mutating func insert(_ route: Route, keysInUse: () -> [Int32]) -> Int32 {
        if let newest, newest.route === route { return newest.key }
        if self.routes.count >= self.limit {
            let used = Set(keysInUse())
            self.routes = self.routes.filter { used.contains($0.key) }
            self.limit = max(16, self.routes.count * 2)
        }
        let key = self.newest.map { $0.key == .max ? 0 : $0.key + 1 } ?? 0
        self.routes[key] = route
        self.newest = (key, route)
        return key
    }

    subscript(key: Int32) -> Route? { self.routes[key] }

    var count: Int { self.routes.count }
}
