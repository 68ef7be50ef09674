import APNSModel
import CLibpq
public import PushQueue

extension PostgresPushQueue {
    public func enqueue(_ pushes: [NewPush], isPartial: Bool) async throws(QueueError) -> [EnqueueResult] {
        guard let push = pushes.first else { return [] }
        guard pushes.count == 1 else { return try await self.store(pushes, isPartial: isPartial) }
        let result = try await self.singlePushes.store(push) { pushes throws(QueueError) in
            try await self.store(pushes, isPartial: true)
        }
        return [result]
    }

    /// Stores pushes in a transaction of their own.
    private func store(_ pushes: [NewPush], isPartial: Bool) async throws(QueueError) -> [EnqueueResult] {
        // What little room there is belongs to outcomes.
        try await self.requireRoom()
        let now = self.now
        let parameters = try await self.storeParameters(pushes, isPartial: isPartial, now: now)
        let (found, isRepeated) = try await self.call(
            "SELECT * FROM apns.store($1, $2, $3, $4)",
            .harmless,
            parameters,
            isMeasured: true
        ) { rows, isRepeated in
            (Self.results(rows[0], pushes), isRepeated)
        }
        self.room.setDiskFull(nil)
        let results = isRepeated ? try await self.resolved(found, pushes, now) : found
        self.room.add(results.count { $0 == .queued })
        return results
    }

    private func storeParameters(
        _ pushes: [NewPush],
        isPartial: Bool,
        now: Int64
    ) async throws(QueueError) -> Parameters {
        var routes: [Int32] = []
        for push in pushes { routes.append(try await self.number(of: push.route)) }
        var parameters = Parameters()
        parameters.add(now)
        parameters.add(isPartial)
        parameters.add(self.room.limit(adding: pushes.count))
        parameters.add(pushes.indices, of: try await self.type("apns.new_push")) { parameters, index in
            parameters.add(pushes[index], route: routes[index])
        }
        return parameters
    }

    /// When a push is overdue: the earlier one of its deadline and its expiration.
    static func expires(_ push: NewPush) -> QueueTime {
        QueueTime(expirationOf: push.push.expiration).map { min($0, push.deadline) } ?? push.deadline
    }

    private static func results(_ row: Row, _ pushes: [NewPush]) -> [EnqueueResult] {
        guard !row.isNull("kinds") else { return pushes.map { _ in .queued } }
        return zip(row.int64s("kinds"), row.ids("known")).map { kind, known in
            guard kind != 0, let known else { return .queued }
            return kind == 1 ? .duplicate(of: known) : .conflict(with: known)
        }
    }

    /// The results of a call that was repeated because the connection was lost: a push that the first call has stored looks
    /// like a duplicate or a conflict with itself.
    private func resolved(
        _ results: [EnqueueResult],
        _ pushes: [NewPush],
        _ now: Int64
    ) async throws(QueueError) -> [EnqueueResult] {
        var resolved: [EnqueueResult] = []
        for (result, push) in zip(results, pushes) {
            var result = result
            if result == .duplicate(of: push.id) || result == .conflict(with: push.id) {
                let status = try await self.status(of: push.id)
                if status?.queuedAt.millisecondsSince1970 == now, status?.route == push.route { result = .queued }
            }
            resolved.append(result)
        }
        return resolved
    }

    // MARK: Numbers

    func number(of route: Route) async throws(QueueError) -> Int32 {
        if let number = self.names[route] { return number }
        var parameters = Parameters()
        parameters.add(route.app)
        parameters.add(route.environment)
        parameters.add(Int16(route.lane == .interactive ? 0 : 1))
        parameters.add(route.caller)
        parameters.add(route.batch ?? Route.noBatch)
        let number = try await self.call("SELECT apns.route_id($1, $2, $3, $4, $5)", .harmless, parameters) { rows, _ in
            Int32(clamping: rows[0].int64())
        }
        self.names[route] = number
        return number
    }

    /// The number of a composite type, such as `apns.new_push`.
    func type(_ name: String) async throws(QueueError) -> Oid {
        if let type = self.names[type: name] { return type }
        var parameters = Parameters()
        parameters.add(name)
        let type = try await self.call("SELECT $1::regtype::oid::bigint", .reading, parameters) { rows, _ in
            Oid(clamping: rows[0].int64())
        }
        self.names[type: name] = type
        return type
    }
}

extension Parameters {
    /// Adds the fields of `apns.new_push`, in their order.
    fileprivate mutating func add(_ push: NewPush, route: Int32) {
        self.add(push.id)
        self.add(route)
        self.add(push.notBefore.millisecondsSince1970)
        self.add(push.deadline.millisecondsSince1970)
        self.add(PostgresPushQueue.expires(push).millisecondsSince1970)
        self.add(push.resendsUnknown)
        self.add(push.supersedes?.rawValue)
        self.add(TokenBytes.bytes(of: push.token))
        self.add(push.push.topic)
        self.add(push.push.pushType.rawValue)
        self.add(push.push.priority.map { Int16(clamping: $0.rawValue) })
        self.add(push.push.expiration.headerValue)
        self.add(push.push.collapseID?.rawValue)
        self.add(push.push.payload)
        self.add(push.idempotency?.key)
        self.add(push.idempotency?.digest)
        self.add(push.metadata)
    }
}
