import APNSModel
import PushQueue

/// A call that changes the queue, as it is stored in the journal.
///
/// All processes apply the same commands in the same order, so that their copies of the queue are equal. The stored
/// numbers must never change, and what a command does must depend on nothing but the copy and the command.
enum QueueCommand: Sendable {
    case enqueue([NewPush], isPartial: Bool, capacity: Int?)
    case claim(Route, limit: Int, lease: Duration)
    case markWritten([Claim], lease: Duration)
    case settle([Settlement])
    case release([Release])
    case park([Settlement])
    case expireLeases
    case settleOverdue(limit: Int)
    case cancel(APNSID)
    case retryParked(APNSID)
    case dropParked(APNSID)
    case setValue([UInt8]?, key: String)
    /// Ends the claims of processes that have ended.
    case endClaims([APNSID])
    case exchangeValue([UInt8]?, key: String, expected: [UInt8]?)
    case prune(Retention, limit: Int)
}

/// What a command did. Only the process that appended the command needs it.
enum CommandResult: Sendable {
    /// The command was stored after the time until which it was valid, so it has no effect.
    case tooLate
    case enqueued([EnqueueResult])
    case full(QueueError)
    /// `isBlocked`: overdue pushes come first and were settled instead; there may be more that are due.
    case claimed([ClaimedPush], isBlocked: Bool)
    case marks([Bool])
    case settled([SettleResult])
    case expired(ExpiredLeases)
    case count(Int)
    case cancelled(CancelResult)
    case flag(Bool)
    case nothing
}

// MARK: Coding

extension QueueCommand {
    func write(to writer: inout ByteWriter) {
        switch self {
        case .enqueue(let pushes, let isPartial, let capacity):
            writer.write(UInt8(1))
            writer.write(pushes) { $0.write($1) }
            writer.write(isPartial)
            writer.write(capacity) { $0.write(Int64(clamping: $1)) }
        case .claim(let route, let limit, let lease):
            writer.write(UInt8(2))
            writer.write(route)
            writer.write(Int64(clamping: limit))
            writer.write(lease)
        case .markWritten(let claims, let lease):
            writer.write(UInt8(3))
            writer.write(claims) { $0.write($1) }
            writer.write(lease)
        case .settle(let settlements):
            writer.write(UInt8(4))
            writer.write(settlements) { $0.write($1) }
        case .release(let releases):
            writer.write(UInt8(5))
            writer.write(releases) { $0.write($1) }
        case .park(let settlements):
            writer.write(UInt8(6))
            writer.write(settlements) { $0.write($1) }
        case .expireLeases:
            writer.write(UInt8(7))
        case .settleOverdue(let limit):
            writer.write(UInt8(8))
            writer.write(Int64(clamping: limit))
        case .cancel(let id):
            writer.write(UInt8(9))
            writer.write(id)
        case .retryParked(let id):
            writer.write(UInt8(10))
            writer.write(id)
        case .dropParked(let id):
            writer.write(UInt8(11))
            writer.write(id)
        case .setValue(let value, let key):
            writer.write(UInt8(12))
            writer.write(value) { $0.write($1) }
            writer.write(key)
        case .prune(let retention, let limit):
            writer.write(UInt8(13))
            writer.write(retention.outcomes)
            writer.write(retention.payloads)
            writer.write(retention.idempotencyKeys)
            writer.write(retention.parked)
            writer.write(Int64(clamping: limit))
        case .exchangeValue(let value, let key, let expected):
            writer.write(UInt8(14))
            writer.write(value) { $0.write($1) }
            writer.write(key)
            writer.write(expected) { $0.write($1) }
        case .endClaims(let sessions):
            writer.write(UInt8(15))
            writer.write(sessions) { $0.write($1) }
        }
    }

    init(from reader: inout ByteReader) throws(MalformedBytes) {
        switch try reader.integer(UInt8.self) {
        case 1:
            self = .enqueue(
                try reader.list { reader throws(MalformedBytes) in try reader.newPush() },
                isPartial: try reader.bool(),
                capacity: try reader.optional { reader throws(MalformedBytes) in try reader.int() }
            )
        case 2: self = .claim(try reader.route(), limit: try reader.int(), lease: try reader.duration())
        case 3:
            self = .markWritten(
                try reader.list { reader throws(MalformedBytes) in try reader.claim() },
                lease: try reader.duration()
            )
        case 4: self = .settle(try reader.list { reader throws(MalformedBytes) in try reader.settlement() })
        case 5: self = .release(try reader.list { reader throws(MalformedBytes) in try reader.release() })
        case 6: self = .park(try reader.list { reader throws(MalformedBytes) in try reader.settlement() })
        case 7: self = .expireLeases
        case 8: self = .settleOverdue(limit: try reader.int())
        case 9: self = .cancel(try reader.id())
        case 10: self = .retryParked(try reader.id())
        case 11: self = .dropParked(try reader.id())
        case 12:
            self = .setValue(
                try reader.optional { reader throws(MalformedBytes) in try reader.array() },
                key: try reader.string()
            )
        case 13:
            let retention = Retention(
                outcomes: try reader.duration(),
                payloads: try reader.duration(),
                idempotencyKeys: try reader.duration(),
                parked: try reader.duration()
            )
            self = .prune(retention, limit: try reader.int())
        case 14:
            self = .exchangeValue(
                try reader.optional { reader throws(MalformedBytes) in try reader.array() },
                key: try reader.string(),
                expected: try reader.optional { reader throws(MalformedBytes) in try reader.array() }
            )
        case 15: self = .endClaims(try reader.list { reader throws(MalformedBytes) in try reader.id() })
        default: throw MalformedBytes()
        }
    }
}
