import APNSModel
import APNSSimulator
import NIOHTTP1

/// Pushes: lists, one push, waiting, the ledger.
extension ControlAPI {
    private static let filterNames = [
        "token", "topic", "pushType", "outcome", "reason", "apnsID", "collapseID", "channelID", "hints",
    ]
    private static let orders = 0...Int.max
    private static let limits = 1...1000

    func pushes(_ request: ControlRequest, _ name: String?) async throws -> ControlResponse {
        if request.method == .DELETE, name == nil {
            try request.allowQuery([])
            self.simulator.clearRecord()
            return .noContent
        }
        try self.allow(name == nil ? [.GET, .DELETE] : [.GET], request)
        switch name {
        case nil: return try self.list(request)
        case "wait": return try await self.wait(request)
        case .some(let name): return try self.push(request, name)
        }
    }

    private func filter(_ request: ControlRequest, besides names: [String]) throws -> PushFilter {
        try request.allowQuery(Self.filterNames + names)
        let query = request.query
        var filter = PushFilter(
            deviceToken: query["token"],
            topic: query["topic"],
            pushType: query["pushType"].map { PushType(rawValue: $0) },
            reason: query["reason"].map { RejectionReason(rawValue: $0) },
            collapseID: query["collapseID"],
            channelID: query["channelID"]
        )
        if query["hints"] != nil { filter.hasHints = try request.flag("hints") }
        if let text = query["outcome"] {
            guard let outcome = PushRecord.Outcome(rawValue: text) else {
                let values = PushRecord.Outcome.allCases.map(\.rawValue).joined(separator: ", ")
                throw ControlError.invalid("outcome=\(text): the values are \(values).")
            }
            filter.outcome = outcome
        }
        if let text = query["apnsID"] {
            guard let id = APNSID(text) else { throw ControlError.invalid("apnsID=\(text): expected a UUID.") }
            filter.apnsID = id
        }
        return filter
    }

    /// The list of `GET /v1/pushes`. The page loads its older pushes from here, and new ones from ``events(_:)``.
    private func list(_ request: ControlRequest) throws -> ControlResponse {
        let filter = try self.filter(request, besides: ["after", "before", "limit", "newest"])
        let limit = try request.integer("limit", in: Self.limits) ?? 100
        let isNewest = try request.flag("newest")
        let range = PushPage(
            after: try request.integer("after", in: Self.orders) ?? 0,
            before: try request.integer("before", in: Self.orders) ?? .max,
            // One more tells whether there is another page.
            limit: limit + 1,
            newestFirst: isNewest
        )
        let pushes = self.simulator.received(filter, range)
        let counts = self.simulator.counts
        var page: JSONObject = ["pushes": pushes.prefix(limit).map { PushJSON(self.simulator, $0, .summary) }]
        page["total"] = counts.kept
        page["dropped"] = counts.dropped
        if pushes.count > limit { page["next"] = pushes[limit - 1].order }
        return .json(page)
    }

    private func push(_ request: ControlRequest, _ name: String) throws -> ControlResponse {
        try request.allowQuery([])
        guard let order = Int(name), order > 0, order < .max else {
            throw ControlError.notFound("'\(name)' is not the number of a push. Numbers are in 'order' of /v1/pushes.")
        }
        let page = PushPage(after: order - 1, before: order + 1)
        guard let push = self.simulator.received(PushFilter(), page).first else {
            throw ControlError.notFound("There is no push \(order): it has not arrived, or it was dropped or reset.")
        }
        return .json(PushJSON(self.simulator, push, .detail))
    }

    private func wait(_ request: ControlRequest) async throws -> ControlResponse {
        let filter = try self.filter(request, besides: ["count", "timeoutSeconds", "after"])
        let count = try request.integer("count", in: Self.limits) ?? 1
        let timeout = try request.integer("timeoutSeconds", in: 0...300) ?? 10
        let after = try request.integer("after", in: Self.orders) ?? 0
        let collected: (pushes: [PushRecord], isComplete: Bool)
        do throws(SimulatorError) {
            collected = try await self.simulator.collect(count, filter, after: after, timeout: .seconds(timeout))
        } catch {
            throw ControlError(.serviceUnavailable, "stopped", "The simulator is stopping.")
        }
        let (pushes, isComplete) = collected
        guard isComplete else {
            var timedOut = ControlError(
                .requestTimeout,
                "timed-out",
                "\(pushes.count) of \(count) matching pushes arrived within \(timeout) s. Check the filter, and see "
                    + "/v1/pushes for what did arrive." + (self.failureText.map { " \($0)" } ?? "")
            )
            timedOut.received = pushes.count
            throw timedOut
        }
        return .json(["pushes": pushes.map { PushJSON(self.simulator, $0, .summary) }])
    }

    /// What a test that waits in vain should know about connections; nil if none failed.
    private var failureText: String? {
        let (total, groups) = self.simulator.failedConnections
        return groups.last.map { "Failed connections: \(total). \($0.message) \($0.remedy(caFile: self.caFile))" }
    }

    /// The type of the ledger. A client that is generated from the OpenAPI document may not know NDJSON. If its
    /// `accept` names text and not NDJSON, it gets the same lines as text.
    private static func ledgerType(_ request: ControlRequest) -> String {
        let accepted = request.headers[canonicalForm: "accept"].map { range in
            range.prefix { $0 != ";" && $0 != " " }.lowercased()
        }
        let ndjson = "application/x-ndjson"
        return accepted.contains("text/plain") && !accepted.contains(ndjson) ? "text/plain; charset=utf-8" : ndjson
    }

    func ledger(_ request: ControlRequest) throws -> ControlResponse {
        try self.allow([.GET], request)
        try request.allowQuery([])
        return .stream(type: Self.ledgerType(request)) { write in
            var last = 0
            while true {
                let pushes = self.simulator.received(PushFilter(), PushPage(after: last, limit: 256))
                guard let end = pushes.last else { return }
                last = end.order
                try await write(pushes.flatMap { PushJSON.line(self.simulator, $0) })
            }
        }
    }
}
