import APNSModel
import Foundation
import Logging
import PushQueue
import SQLitePushQueue
import Testing

@Suite struct SmokeTests {
    @Test("A push goes through the queue")
    func cycle() async throws {
        let file = NSTemporaryDirectory() + "/smoke-\(APNSID.random()).sqlite"
        let queue = try await SQLitePushQueue.open(file: file, logger: Logger(label: "x"))
        let route = Route(app: "fern", environment: "production", lane: .bulk)
        let now = SystemQueueClock().now
        let push = NewPush(
            id: .random(),
            route: route,
            token: try DeviceToken(String(repeating: "ab", count: 32)),
            push: try PreparedPush(topic: "com.example", pushType: .alert, payload: Array("{}".utf8)),
            caller: "c",
            notBefore: now,
            deadline: now.advanced(by: .seconds(100))
        )
        let r = try await queue.enqueue([push], isPartial: false)
        #expect(r == [.queued])
        let claims = try await queue.claim(route, limit: 10, worker: .random(), lease: .seconds(10))
        #expect(claims.count == 1)
        #expect(claims[0].token == push.token)
        #expect(claims[0].push == push.push)
        let marks = try await queue.markWritten(claims.map(\.claim), lease: .seconds(10))
        #expect(marks == [true])
        let settled = try await queue.settle([
            Settlement(claim: claims[0].claim, outcome: .accepted(Receipt(apnsID: push.id)))
        ])
        #expect(settled == [.settled])
        let status = try #require(await queue.status(of: push.id))
        #expect(status.state == .settled)
        #expect(status.outcome == .accepted(Receipt(apnsID: push.id)))
        let counts = try await queue.counts()
        #expect(counts.unsettled == 0)
        await queue.close()
    }
}
