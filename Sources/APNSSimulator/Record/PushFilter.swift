public import APNSModel

/// Selects recorded pushes. A push matches if it equals the filter in every value that is not nil.
public struct PushFilter: Sendable, Hashable {
    /// A device token, in either case. Stored in lower case.
    public var deviceToken: String? { didSet { self.deviceToken = self.deviceToken?.lowercased() } }
    /// The value of `apns-topic`, or the bundle ID of a broadcast.
    public var topic: String?
    /// The value of `apns-push-type`.
    public var pushType: PushType?
    /// What the client received.
    public var outcome: PushRecord.Outcome?
    /// The reason of a rejection.
    public var reason: RejectionReason?
    /// The value of `apns-id`, or of `apns-request-id` for a broadcast.
    public var apnsID: APNSID?
    /// The value of `apns-collapse-id`.
    public var collapseID: String?
    /// The channel of a broadcast.
    public var channelID: String?
    /// Whether there are hints for the push (`PushRecord.hints`).
    public var hasHints: Bool?

    /// All parameters are optional and described at their properties. The default matches every push and broadcast.
    public init(
        deviceToken: String? = nil,
        topic: String? = nil,
        pushType: PushType? = nil,
        outcome: PushRecord.Outcome? = nil,
        reason: RejectionReason? = nil,
        apnsID: APNSID? = nil,
        collapseID: String? = nil,
        channelID: String? = nil,
        hasHints: Bool? = nil
    ) {
        self.deviceToken = deviceToken?.lowercased()
        self.topic = topic
        self.pushType = pushType
        self.outcome = outcome
        self.reason = reason
        self.apnsID = apnsID
        self.collapseID = collapseID
        self.channelID = channelID
        self.hasHints = hasHints
    }

    func matches(_ push: PushRecord) -> Bool {
        func agrees<Value: Equatable>(_ wanted: Value?, _ value: Value?) -> Bool { wanted == nil || wanted == value }
        return agrees(self.deviceToken, push.deviceToken) && agrees(self.topic, push.topic)
            && agrees(self.pushType, push.pushType) && agrees(self.outcome, push.outcome)
            && agrees(self.reason, push.reason) && agrees(self.apnsID, push.apnsID)
            && agrees(self.collapseID, push.collapseID) && agrees(self.channelID, push.channelID)
            && (self.hasHints == nil || self.hasHints != push.hints.isEmpty)
    }
}

/// A part of the recorded pushes: a range of positions, a limit, and whether the oldest or the newest come first.
package struct PushPage: Sendable {
    /// Only pushes after this position (`PushRecord.order`).
    package var after = 0
    /// Only pushes before this position.
    package var before = Int.max
    /// The maximum number of pushes.
    package var limit = Int.max
    /// Whether the newest come first.
    package var newestFirst = false

    package init(after: Int = 0, before: Int = .max, limit: Int = .max, newestFirst: Bool = false) {
        self.after = after
        self.before = before
        self.limit = limit
        self.newestFirst = newestFirst
    }
}

extension Ledger {
    /// The recorded pushes and broadcasts that match, merged by position.
    package func select(_ filter: PushFilter, _ page: PushPage = PushPage()) -> [PushRecord] {
        var pushes = Self.range(self.pushes, page)
        var broadcasts = Self.range(self.broadcasts, page)
        var selected: [PushRecord] = []
        while selected.count < page.limit {
            let push: PushRecord?
            if page.newestFirst {
                let isPush = (pushes.last?.order ?? 0) > (broadcasts.last?.order ?? 0)
                push = isPush ? pushes.popLast() : broadcasts.popLast()
            } else {
                let isPush = (pushes.first?.order ?? .max) < (broadcasts.first?.order ?? .max)
                push = isPush ? pushes.popFirst() : broadcasts.popFirst()
            }
            guard let push else { break }
            if filter.matches(push) { selected.append(push) }
        }
        return selected
    }

    /// The last record before this one with the same recipient; nil if none of the 200 before it has.
    func previous(of push: PushRecord) -> PushRecord? {
        let records = push.channelID == nil ? self.pushes : self.broadcasts
        let end = Self.firstIndex(in: records) { $0.order >= push.order }
        return records[..<end].suffix(200).last {
            $0.deviceToken == push.deviceToken && $0.channelID == push.channelID
        }
    }

    /// The records within the positions of a page. `records` is in the order of positions.
    private static func range(_ records: [PushRecord], _ page: PushPage) -> ArraySlice<PushRecord> {
        let start = self.firstIndex(in: records) { $0.order > page.after }
        let end = self.firstIndex(in: records) { $0.order >= page.before }
        return start < end ? records[start..<end] : []
    }

    /// The first index at which a condition holds, which must then hold for all later records (binary search).
    private static func firstIndex(in records: [PushRecord], where holds: (PushRecord) -> Bool) -> Int {
        var low = 0
        var high = records.count
        while low < high {
            let middle = (low + high) / 2
            if holds(records[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
