import Testing

@testable import APNSPool

/// Which routes a bulk call retains.
struct RecentRoutesTests {
    private final class Route {}

    @Test("A route keeps its key until another one follows") func keys() {
        let (first, second) = (Route(), Route())
        var routes = RecentRoutes<Route>()
        let key = routes.insert(first) { [] }
        #expect(routes.insert(first) { [] } == key)
        let next = routes.insert(second) { [] }
        #expect(next != key && routes[key] === first && routes[next] === second)
        #expect(routes[-1] == nil)
    }

    @Test("Routes that no push uses are released") func unused() {
        var routes = RecentRoutes<Route>()
        weak var early: Route?
        for round in 0..<10_000 {
            let route = Route()
            if round == 0 { early = route }
            _ = routes.insert(route) { [] }
            #expect(routes.count <= 16)
        }
        #expect(early == nil)
    }

    @Test("A route that a push uses stays, and the searches for unused ones stay rare") func used() {
        var routes = RecentRoutes<Route>()
        var keys: [Int32] = []
        var all: [Route] = []
        var searches = 0
        for _ in 0..<1000 {
            let route = Route()
            all.append(route)
            keys.append(
                routes.insert(route) {
                    searches += 1
                    return keys
                }
            )
        }
        #expect(zip(keys, all).allSatisfy { routes[$0] === $1 })
        #expect(searches <= 7)
    }
}
