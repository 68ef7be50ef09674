import APNSModel
import PushQueue
import Testing

@testable import PostgresPushQueue

/// The numbers of routes that a process remembers.
struct NameCacheTests {
    @Test("Names are remembered, and those of ever new batches use a bounded amount of memory") func bound() {
        let names = NameCache()
        names[type: "apns.new_push"] = 3
        for number in 0..<25_000 {
            let route = Route(app: "fern", environment: "production", lane: .bulk, caller: "shop \(number)")
            names[route] = Int32(number)
            #expect(names[route] == Int32(number))
        }
        let known = (0..<25_000).count { number in
            names[Route(app: "fern", environment: "production", lane: .bulk, caller: "shop \(number)")] != nil
        }
        #expect(known <= NameCache.limit)
        #expect(names[type: "apns.new_push"] == 3)
        names.removeAll()
        #expect(names[type: "apns.new_push"] == nil)
    }
}
