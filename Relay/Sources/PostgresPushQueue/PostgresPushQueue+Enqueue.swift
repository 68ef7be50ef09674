import APNSModel
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
        let (found, isRepeated): ([EnqueueResult], Bool)
        do {
            (found, isRepeated) = try await self.call(
                "SELECT kinds, known FROM apns.store(\(Self.places(21)))",
                .harmless,
                parameters,
                isMeasured: true
            ) { rows, isRepeated in
                (Self.results(rows[0], pushes), isRepeated)
            }
        } catch {
            if error.isDiskFull { self.room.setDiskFull(error) }
            throw error
        }
        self.room.setDiskFull(nil)
        let results = isRepeated ? try await self.resolved(found, pushes, now) : found
        self.room.add(results.count { $0 == .queued })
        return results
    }

    static func places(_ count: Int) -> String { (1...count).map { "$\($0)" }.joined(separator: ", ") }

    private func storeParameters(
        _ pushes: [NewPush],
        isPartial: Bool,
        now: Int64
    ) async throws(QueueError) -> Parameters {
        let (routes, callers) = try await self.numbers(pushes.map(\.route))
        var parameters = Parameters()
        parameters.add(now)
        parameters.add(isPartial)
        parameters.add(self.room.limit(adding: pushes.count))
        parameters.add(pushes.lazy.map(\.id))
        parameters.add(routes)
        parameters.add(callers)
        parameters.add(pushes.lazy.map { $0.notBefore.millisecondsSince1970 })
        parameters.add(pushes.lazy.map { $0.deadline.millisecondsSince1970 })
        parameters.add(pushes.lazy.map { Self.expires($0).millisecondsSince1970 })
        parameters.add(contentsOf: pushes)
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

    /// The numbers of routes and of their callers.
    func numbers(_ routes: [Route]) async throws(QueueError) -> (routes: [Int32], callers: [Int32]) {
        var numbers: (routes: [Int32], callers: [Int32]) = ([], [])
        for route in routes {
            numbers.routes.append(try await self.number(of: route))
            numbers.callers.append(try await self.number(ofCaller: route.caller))
        }
        return numbers
    }

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

    func number(ofCaller name: String) async throws(QueueError) -> Int32 {
        if let number = self.names[caller: name] { return number }
        var parameters = Parameters()
        parameters.add(name)
        let number = try await self.call("SELECT apns.caller_id($1)", .harmless, parameters) { rows, _ in
            Int32(clamping: rows[0].int64())
        }
        self.names[caller: name] = number
        return number
    }
}

extension Parameters {
    /// Adds twelve arrays, from whether a push may be sent again to its metadata.
    mutating func add(contentsOf pushes: [NewPush]) {
        self.add(pushes.lazy.map(\.resendsUnknown))
        self.add(pushes.lazy.map { $0.supersedes?.rawValue })
        self.add(pushes.lazy.map { TokenBytes.bytes(of: $0.token) })
        self.add(pushes.lazy.map(\.push.topic))
        self.add(pushes.lazy.map(\.push.pushType.rawValue))
        self.add(pushes.lazy.map { $0.push.priority.map { Int16(clamping: $0.rawValue) } })
        self.add(pushes.lazy.map(\.push.expiration.headerValue))
        self.add(pushes.lazy.map(\.push.collapseID?.rawValue))
        self.add(pushes.lazy.map(\.push.payload))
        self.add(pushes.lazy.map(\.idempotency?.key))
        self.add(pushes.lazy.map(\.idempotency?.digest))
        self.add(pushes.lazy.map(\.metadata))
    }
}
