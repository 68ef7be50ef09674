import APNSModel
public import PushQueue

extension PostgresPushQueue: MovablePushQueue {
    public func checkMovable() async throws(QueueError) {
        let owns = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'apns.push'::regclass"
        guard try await self.isTrue(owns) else {
            throw QueueError(code: .unusable, message: "To move the queue, the role must own the schema apns.")
        }
    }

    public func isUnused() async throws(QueueError) -> Bool {
        try await self.isTrue("SELECT apns.is_unused()")
    }

    private func isTrue(_ sql: String) async throws(QueueError) -> Bool {
        try await self.call(sql, .reading) { rows, _ in rows[0].bool(0) }
    }

    public func seal(_ extent: SealExtent) async throws(QueueError) {
        // Not while the tables are locked.
        while extent == .everything, try await self.isTrue("SELECT apns.needs_tending()") {
            try await self.call("SELECT apns.tend($1, $2)", .harmless, self.settling()) { _, _ in }
        }
        var parameters = self.settling()
        parameters.add(extent == .everything)
        try await self.call("SELECT apns.seal($1, $2, $3)", .harmless, parameters) { _, _ in }
    }

    public func unseal() async throws(QueueError) {
        try await self.call("SELECT apns.unseal()") { _, _ in }
    }

    public func feedBounds() async throws(QueueError) -> FeedBounds {
        try await self.call("SELECT next, pruned, histories, starts FROM apns.feed_bounds()", .reading) { rows, _ in
            let row = rows[0]
            return FeedBounds(
                next: row.int64(0),
                deleted: row.int64(1),
                generations: zip(row.int64s(2), row.int64s(3)).map {
                    FeedGenerations.Generation(id: UInt32(truncatingIfNeeded: $0), start: $1)
                }
            )
        }
    }

    public func adopt(_ bounds: FeedBounds) async throws(QueueError) {
        var parameters = Parameters()
        parameters.add(bounds.next)
        parameters.add(bounds.deleted)
        parameters.add(bounds.generations.lazy.map { Int64($0.id) })
        parameters.add(bounds.generations.lazy.map(\.start))
        try await self.call("SELECT apns.adopt($1, $2, $3, $4)", .harmless, parameters) { _, _ in }
    }

    public func unsettledPushes(after position: Int64, limit: Int) async throws(QueueError) -> [UnsettledPush] {
        try await self.call(
            "SELECT * FROM apns.unsettled_pushes($1, $2)",
            .reading,
            Self.page(position, limit)
        ) { rows, _ throws(QueueError) in
            var pushes: [UnsettledPush] = []
            for index in 0..<rows.count { pushes.append(try UnsettledPush(rows[index])) }
            return pushes
        }
    }

    public func settledKeys(after position: Int64, limit: Int) async throws(QueueError) -> [SettledKey] {
        try await self.call(
            "SELECT * FROM apns.settled_keys($1, $2)",
            .reading,
            Self.page(position, limit)
        ) { rows, _ in
            (0..<rows.count).compactMap { index in
                let row = rows[index]
                return row.id(4).map { id in
                    SettledKey(
                        position: row.int64(0),
                        caller: row.text(1),
                        key: IdempotencyKey(key: row.text(2), digest: row.bytes(3)),
                        id: id,
                        settledAt: QueueTime(millisecondsSince1970: row.int64(5)),
                        hasOutcome: row.bool(6)
                    )
                }
            }
        }
    }

    private static func page(_ position: Int64, _ limit: Int) -> Parameters {
        var parameters = Parameters()
        parameters.add(position)
        parameters.add(Int32(clamping: limit))
        return parameters
    }

    public func store(_ part: QueuePart, value: [UInt8], forKey key: String) async throws(QueueError) {
        // One kind at a time: each is a statement of its own.
        var start = Parameters()
        start.add(key)
        start.add(value)
        if !part.outcomes.isEmpty { return try await self.store(part.outcomes, start) }
        if !part.pushes.isEmpty { return try await self.store(part.pushes, start) }
        if !part.keys.isEmpty { return try await self.store(part.keys, start) }
        try await self.setValue(value, forKey: key)
    }

    private func store(_ entries: [FeedEntry], _ start: Parameters) async throws(QueueError) {
        let pushes = entries.map(\.push)
        let routes = try await self.numbers(pushes.map(\.route)).routes
        var parameters = start
        parameters.add(entries.lazy.map(\.cursor.position))
        parameters.add(pushes.lazy.map(\.id))
        parameters.add(routes)
        parameters.add(pushes.lazy.map { $0.queuedAt.millisecondsSince1970 })
        parameters.add(pushes.lazy.map { $0.notBefore.millisecondsSince1970 })
        parameters.add(pushes.lazy.map { $0.deadline.millisecondsSince1970 })
        parameters.add(pushes.lazy.map { $0.settledAt?.millisecondsSince1970 ?? 0 })
        parameters.add(pushes.lazy.map { TokenBytes.bytes(of: $0.token) })
        parameters.add(pushes.lazy.map { Int32(clamping: $0.attempts) })
        parameters.add(pushes.map { push in push.outcome.map { OutcomeColumns($0, of: push.id) } })
        parameters.add(pushes.lazy.map(\.metadata))
        try await self.call("SELECT apns.store_outcomes(\(Self.places(16)))", .harmless, parameters) { _, _ in }
    }

    private func store(_ unsettled: [UnsettledPush], _ start: Parameters) async throws(QueueError) {
        let pushes = unsettled.map(\.push)
        let (routes, callers) = try await self.numbers(pushes.map(\.route))
        var parameters = start
        parameters.add(pushes.lazy.map(\.id))
        parameters.add(routes)
        parameters.add(callers)
        parameters.add(unsettled.lazy.map { $0.queuedAt.millisecondsSince1970 })
        parameters.add(pushes.lazy.map { $0.notBefore.millisecondsSince1970 })
        parameters.add(pushes.lazy.map { $0.deadline.millisecondsSince1970 })
        parameters.add(pushes.lazy.map { Self.expires($0).millisecondsSince1970 })
        parameters.add(unsettled.lazy.map { Int32(clamping: $0.attempts) })
        parameters.add(contentsOf: pushes)
        parameters.add(unsettled.lazy.map { $0.parkedAt?.millisecondsSince1970 })
        parameters.add(unsettled.map { push in push.outcome.map { OutcomeColumns($0, of: push.push.id) } })
        try await self.call("SELECT apns.store_pushes(\(Self.places(27)))", .harmless, parameters) { _, _ in }
    }

    private func store(_ keys: [SettledKey], _ start: Parameters) async throws(QueueError) {
        var callers: [Int32] = []
        for key in keys { callers.append(try await self.number(ofCaller: key.caller)) }
        var parameters = start
        parameters.add(callers)
        parameters.add(keys.lazy.map(\.key.key))
        parameters.add(keys.lazy.map(\.key.digest))
        parameters.add(keys.lazy.map(\.id))
        parameters.add(keys.lazy.map { $0.settledAt.millisecondsSince1970 })
        parameters.add(keys.lazy.map(\.hasOutcome))
        try await self.call("SELECT apns.store_keys(\(Self.places(8)))", .harmless, parameters) { _, _ in }
    }
}

extension UnsettledPush {
    /// Reads a row of `apns.unsettled_pushes`.
    fileprivate init(_ row: Row) throws(QueueError) {
        guard let id = row.id(1), let token = row.withBytes(7, TokenBytes.token), let push = PreparedPush(row, at: 14)
        else {
            throw .unreadable(row.id(1), at: row.int64(0))
        }
        self.init(
            position: row.int64(0),
            push: NewPush(
                id: id,
                route: Route(row, at: 2),
                token: token,
                push: push,
                notBefore: QueueTime(millisecondsSince1970: row.int64(9)),
                deadline: QueueTime(millisecondsSince1970: row.int64(10)),
                resendsUnknown: row.bool(12),
                supersedes: row.optionalText(13).map { SupersedeKey($0) },
                idempotency: row.optionalText(20).map { IdempotencyKey(key: $0, digest: row.bytes(21)) },
                metadata: row.optionalText(26)
            ),
            queuedAt: QueueTime(millisecondsSince1970: row.int64(8)),
            attempts: row.int(11),
            outcome: OutcomeColumns.outcome(row, at: 23, of: id),
            parkedAt: row.optionalInt64(22).map { QueueTime(millisecondsSince1970: $0) }
        )
    }
}
