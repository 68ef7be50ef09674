import APNSModel
import Foundation
import GRDB
import PushQueue
import SQLitePushQueue
import Testing

extension SQLiteFixture {
    static let route = Route(app: "fern", environment: "production", lane: .bulk, caller: "shop")

    /// A push that is due.
    func push(payloadSize: Int = 300, key: String? = nil, digest: [UInt8] = [1]) throws -> NewPush {
        NewPush(
            id: .random(),
            route: Self.route,
            token: try DeviceToken(String(repeating: "ab", count: 32)),
            push: try PreparedPush(
                topic: "com.example.fern",
                pushType: .alert,
                payload: [UInt8](repeating: 0x20, count: payloadSize),
                skippingValidation: true
            ),
            notBefore: self.now,
            deadline: self.now.advanced(by: .seconds(86_400)),
            idempotency: key.map { IdempotencyKey(key: $0, digest: digest) }
        )
    }

    func pushes(_ count: Int) throws -> [NewPush] { try (0..<count).map { _ in try self.push() } }

    /// A connection of another program. It waits for nothing.
    func otherConnection() throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        return try DatabaseQueue(path: self.file, configuration: configuration)
    }

    /// Changes the file of a closed queue.
    func edit(_ sql: String) throws {
        let other = try self.otherConnection()
        try other.writeWithoutTransaction { try $0.execute(sql: sql) }
        try other.close()
    }
}

extension SQLitePushQueue {
    func claim(_ limit: Int) async throws(QueueError) -> [Claim] {
        let route = SQLiteFixture.route
        return try await self.claim(route, limit: limit, lease: .seconds(60)).map(\.claim)
    }

    /// Claims and settles pushes until none is due.
    func settleAll() async throws(QueueError) {
        while true {
            let claims = try await self.claim(100)
            guard !claims.isEmpty else { return }
            _ = try await self.settle(claims.map { Settlement(claim: $0, outcome: .accepted(Receipt(apnsID: $0.id))) })
        }
    }
}

/// The error that the call throws; nil if it throws none.
func failure<Value>(_ body: () async throws -> Value) async -> QueueError? {
    do {
        _ = try await body()
        return nil
    } catch let error as QueueError {
        return error
    } catch {
        Issue.record("not an error of a queue: \(error)")
        return nil
    }
}
