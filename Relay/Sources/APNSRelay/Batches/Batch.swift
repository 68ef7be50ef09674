import APNSModel
import PushQueue

/// A push to many devices: headers and a payload that all have in common.
///
/// Its pushes have a route of their own in the queue. In place of a payload, the queue keeps the values of each device, which
/// replace the placeholders of the payload.
struct Batch: Codable, Sendable {
    var id: APNSID
    /// What its caller calls it.
    var name: String?
    var caller: String
    var app: String
    var environment: String
    var topic: String
    var pushType: String
    var priority: Int?
    /// The header `apns-expiration`.
    var expiration: Int64?
    var collapseID: String?
    /// The payload with its placeholders, as JSON text.
    var payload: String
    /// The values of placeholders for devices without one, as JSON text.
    var values: String
    var metadata: String?
    var resendsUnknown: Bool
    /// Milliseconds since 1970, as all times.
    var createdAt: Int64
    var notBefore: Int64
    var deadline: Int64
    var idempotencyKey: String?
    /// Identifies the batch if its caller submits it again.
    var digest: [UInt8]

    var route: Route {
        Route(app: self.app, environment: self.environment, lane: .bulk, caller: self.caller, batch: self.id)
    }

    /// A push of the batch to a device.
    ///
    /// - Parameters:
    ///   - payload: the payload.
    ///   - skippingValidation: whether to skip the library's validation.
    func push(_ payload: [UInt8], skippingValidation: Bool) throws(ValidationError) -> PreparedPush {
        try PreparedPush(
            topic: self.topic,
            pushType: PushType(rawValue: self.pushType),
            payload: payload,
            priority: self.priority.map { Priority(rawValue: $0) },
            expiration: self.expiration.map { $0 == 0 ? .immediate : .at(secondsSince1970: $0) } ?? .systemDefault,
            collapseID: try self.collapseID.map { text throws(ValidationError) in try CollapseID(text) },
            skippingValidation: skippingValidation
        )
    }

    /// The id of the push of a line, counted from 1. The same line always has the same id, so a line that is submitted again is
    /// a duplicate.
    func id(ofLine line: Int) -> APNSID {
        // Version 8 (RFC 9562 §5.8). The batch's own id has version 7.
        APNSID(high: self.id.high & ~0xF000 | 0x8000, low: self.id.low + UInt64(line))
    }

    /// A new id for a batch: a UUID of version 7 (RFC 9562 §5.7) that leaves room for the ids of its pushes.
    static func newID(at now: QueueTime) -> APNSID {
        var generator = SystemRandomNumberGenerator()
        let random: UInt64 = generator.next()
        return APNSID(
            high: UInt64(clamping: now.millisecondsSince1970) << 16 | 0x7000 | random & 0xFFF,
            low: 0x8000_0000_0000_0000 | generator.next() >> 3
        )
    }
}

/// What changes of a batch.
struct BatchState: Codable, Sendable, Hashable {
    /// The lines whose pushes are stored, or that are invalid.
    var lines = 0
    var invalid = 0
    /// The checksum of these lines.
    var checksum = LineChecksum()
    /// When the last lines were stored, in milliseconds since 1970.
    var storedAt: Int64 = 0
    /// Whether all lines are. Until then, nothing is sent.
    var isComplete = false
    var isPaused = false
    var isCancelled = false
    /// The most pushes a second, of all relays together; nil for no limit.
    var pushesPerSecond: Double?
    /// When all pushes had their outcomes, in milliseconds since 1970; how many they were; and where the feed ended.
    var endedAt: Int64?
    var endedWith: Int?
    var endedAtCursor: Int64?

    init() {}

    /// Members that an older version has not stored have their defaults.
    init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        self.lines = try values.decodeIfPresent(Int.self, forKey: .lines) ?? 0
        self.invalid = try values.decodeIfPresent(Int.self, forKey: .invalid) ?? 0
        self.checksum = try values.decodeIfPresent(LineChecksum.self, forKey: .checksum) ?? LineChecksum()
        self.storedAt = try values.decodeIfPresent(Int64.self, forKey: .storedAt) ?? 0
        self.isComplete = try values.decodeIfPresent(Bool.self, forKey: .isComplete) ?? false
        self.isPaused = try values.decodeIfPresent(Bool.self, forKey: .isPaused) ?? false
        self.isCancelled = try values.decodeIfPresent(Bool.self, forKey: .isCancelled) ?? false
        self.pushesPerSecond = try values.decodeIfPresent(Double.self, forKey: .pushesPerSecond)
        self.endedAt = try values.decodeIfPresent(Int64.self, forKey: .endedAt)
        self.endedWith = try values.decodeIfPresent(Int.self, forKey: .endedWith)
        self.endedAtCursor = try values.decodeIfPresent(Int64.self, forKey: .endedAtCursor)
    }

    /// Whether its pushes may be sent.
    var isSending: Bool { self.isComplete && !self.isPaused && !self.isCancelled }
}
