import APNSModel
import PushQueue

/// The number of parked pushes for each app and reason.
struct ParkedGroupsJSON: Encodable {
    struct Group: Encodable {
        var app: String
        /// The name of the reason (`PushError.reasonName`).
        @OrNull var reason: String?
        var pushes: Int
        /// When the oldest push was queued.
        var oldest: Double
    }

    private struct Key: Hashable {
        var app: String
        var reason: String?
    }

    /// The maximum number of pushes that are counted. Each of them is read.
    private static let limit = 100_000

    /// In the order of the apps and the reasons.
    var groups: [Group] = []
    /// Whether all parked pushes are counted.
    var complete = true

    /// Counts the parked pushes of a queue.
    static func count(_ queue: any PushQueue) async throws(QueueError) -> ParkedGroupsJSON {
        var groups: [Key: Group] = [:]
        var counted = 0
        var last: APNSID?
        while counted < Self.limit {
            let parked = try await queue.parked(after: last, limit: OperatorRoutes.page)
            for push in parked {
                let key = Key(app: push.route.app, reason: push.outcome?.error?.reasonName)
                let queuedAt = push.queuedAt.seconds
                var group = groups[key] ?? Group(app: key.app, reason: key.reason, pushes: 0, oldest: queuedAt)
                group.pushes += 1
                group.oldest = min(group.oldest, queuedAt)
                groups[key] = group
            }
            counted += parked.count
            last = parked.last?.id
            if parked.count < OperatorRoutes.page { break }
        }
        return ParkedGroupsJSON(
            groups: groups.values.sorted { ($0.app, $0.reason ?? "") < ($1.app, $1.reason ?? "") },
            complete: counted < Self.limit
        )
    }
}

extension PushError {
    /// APNs' reason, or the error's code if APNs gave none.
    var reasonName: String { self.reason?.rawValue ?? self.code.rawValue }
}
