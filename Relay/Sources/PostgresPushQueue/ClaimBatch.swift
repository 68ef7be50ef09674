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
            guard !row.isNull("position"), let id = row.id("id") else {
                self.isBlocked = true
                continue
            }
            let claim = Claim(id: id, epoch: row.int64("epoch"), position: row.int64("position"))
            if let push = Self.push(row, claim) { self.pushes.append(push) } else { self.unreadable.append(claim) }
        }
    }

    private static func push(_ row: Row, _ claim: Claim) -> ClaimedPush? {
        guard let token = row.withBytes("token", TokenBytes.token), let push = PreparedPush(row) else { return nil }
        return ClaimedPush(
            claim: claim,
            token: token,
            push: push,
            deadline: QueueTime(millisecondsSince1970: row.int64("deadline")),
            queuedAt: QueueTime(millisecondsSince1970: row.int64("queued_at")),
            attempts: row.int("attempts"),
            resendsUnknown: row.bool("resends"),
            mayBeProcessed: row.int("tried") == 2
        )
    }
}

extension PreparedPush {
    /// Reads the columns `topic`, `type`, `priority`, `expiration`, `collapse` and `payload`; nil if they are not a push.
    init?(_ row: Row) {
        self.init(
            storedTopic: row.text("topic"),
            type: row.text("type"),
            priority: row.optionalInt64("priority"),
            expiration: row.optionalInt64("expiration"),
            collapse: row.optionalText("collapse"),
            payload: row.bytes("payload")
        )
    }
}
