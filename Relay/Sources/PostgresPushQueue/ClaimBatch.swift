import APNSModel
import PushQueue

/// The pushes of a call of `apns.claim`.
struct ClaimBatch: Sendable {
    var pushes: [ClaimedPush] = []
    /// Pushes whose stored form is not one of this relay, perhaps because a person has changed it.
    var unreadable: [Claim] = []
    /// Whether pushes that are due must be settled first, because they are overdue.
    var isBlocked = false

    init(_ rows: Rows) {
        for index in 0..<rows.count {
            let row = rows[index]
            guard !row.isNull(0), let id = row.id(2) else {
                self.isBlocked = true
                continue
            }
            let claim = Claim(id: id, epoch: row.int64(1), position: row.int64(0))
            if let push = Self.push(row, claim) { self.pushes.append(push) } else { self.unreadable.append(claim) }
        }
    }

    private static func push(_ row: Row, _ claim: Claim) -> ClaimedPush? {
        guard let token = row.withBytes(3, TokenBytes.token), let push = PreparedPush(row, at: 4) else { return nil }
        return ClaimedPush(
            claim: claim,
            token: token,
            push: push,
            deadline: QueueTime(millisecondsSince1970: row.int64(11)),
            queuedAt: QueueTime(millisecondsSince1970: row.int64(10)),
            attempts: row.int(12),
            resendsUnknown: row.bool(13),
            mayBeProcessed: row.int64(14) == 2
        )
    }
}

extension PreparedPush {
    /// Reads six columns: topic, type, priority, expiration, collapse and payload; nil if they are not a push.
    init?(_ row: Row, at first: Int32) {
        self.init(
            storedTopic: row.text(first),
            type: row.text(first + 1),
            priority: row.optionalInt64(first + 2),
            expiration: row.optionalInt64(first + 3),
            collapse: row.optionalText(first + 4),
            payload: row.bytes(first + 5)
        )
    }
}
