import SupervisedPool
import Testing

@testable import APNSPool

struct SendRouteTests {
    @Test("A route with another provider token keeps its pool, so a lease returns to the pool that issued it")
    func poolOfALease() async throws {
        let client = try APNSClient.unstarted()
        let session = client.runtime.credentials.latest
        let token = ProviderToken(jwt: "header.claims.signature", generation: 1, issuedAt: 0)
        for (destination, currentPool) in [
            (SendRoute.Destination.pushes, session.currentPool), (.management, session.management.currentPool),
        ] {
            let route = SendRoute(session, destination, version: 0)
            // The pool's child starts, and is restarted with another pool.
            for _ in 0..<2 { _ = currentPool.forChild() }
            #expect(currentPool.current !== route.pool)
            #expect(route.with(token, validUntil: .distantFuture).pool === route.pool)
        }
        await client.shutdown()
    }
}
