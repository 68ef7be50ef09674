import APNSModel
import HTTP2Wire

/// A push as it came, before anything about it is believed.
struct PushRequest: Sendable, Hashable {
    var method = ""
    var path = ""
    var topic: String?
    var pushType: String?
    var priority: String?
    var expiration: String?
    var id: String?
    var collapseID: String?
    var hasDuplicates = false
    var body: [UInt8] = []

    init() {}

    init(_ request: ServerRequest) {
        self.body = request.body
        request.fields.forEach { name, value in
            // Told apart by length and one byte, which is cheaper than a string for each name.
            guard let first = name.first else { return }
            switch (name.count, first) {
            case (7, UInt8(ascii: ":")) where name[1] == UInt8(ascii: "m"): self.method = Self.text(value)
            case (5, UInt8(ascii: ":")): self.path = Self.text(value)
            case (10, UInt8(ascii: "a")) where name.last == UInt8(ascii: "c"): self.set(\.topic, value)
            case (14, UInt8(ascii: "a")): self.set(\.pushType, value)
            case (13, UInt8(ascii: "a")) where name[5] == UInt8(ascii: "p"): self.set(\.priority, value)
            case (15, UInt8(ascii: "a")) where name[5] == UInt8(ascii: "e"): self.set(\.expiration, value)
            case (7, UInt8(ascii: "a")): self.set(\.id, value)
            case (16, UInt8(ascii: "a")): self.set(\.collapseID, value)
            default: break
            }
        }
    }

    private mutating func set(_ field: WritableKeyPath<PushRequest, String?>, _ value: UnsafeBufferPointer<UInt8>) {
        if self[keyPath: field] != nil { self.hasDuplicates = true }
        self[keyPath: field] = Self.text(value)
    }

    private static func text(_ bytes: UnsafeBufferPointer<UInt8>) -> String {
        String(decoding: bytes, as: UTF8.self)
    }

    /// What stands behind `/3/device/`; nil for another path.
    var deviceToken: Substring? {
        let prefix = "/3/device/"
        guard self.path.hasPrefix(prefix) else { return nil }
        return self.path.dropFirst(prefix.utf8.count)
    }
}

/// What the simulated APNs says to a request.
struct PushAnswer: Sendable, Hashable {
    var status: Int
    var reason: String?
    /// Milliseconds since 1970, with status 410.
    var timestamp: Int64?

    static let accepted = PushAnswer(status: 200)

    static func refused(_ status: Int, _ reason: String, timestamp: Int64? = nil) -> PushAnswer {
        PushAnswer(status: status, reason: reason, timestamp: timestamp)
    }

    var body: [UInt8] {
        guard let reason else { return [] }
        let time = self.timestamp.map { ",\"timestamp\":\($0)" } ?? ""
        return Array("{\"reason\":\"\(reason)\"\(time)}".utf8)
    }
}

/// What APNs checks of a push, in one pure function. Source: Apple, "Sending notification requests to APNs" and
/// "Handling notification responses from APNs".
enum APNSRules {
    private struct TypeRule {
        var suffix: String
        var priorities: Set<String>
        var payloadLimit: Int
    }

    private static let anyPriority: Set<String> = ["1", "5", "10"]

    /// Told here once more, and not taken from the client's model: a mistake there must show here.
    private static let types: [String: TypeRule] = [
        "alert": TypeRule(suffix: "", priorities: anyPriority, payloadLimit: 4096),
        "background": TypeRule(suffix: "", priorities: ["5", "1"], payloadLimit: 4096),
        "voip": TypeRule(suffix: ".voip", priorities: anyPriority, payloadLimit: 5120),
        "complication": TypeRule(suffix: ".complication", priorities: anyPriority, payloadLimit: 4096),
        "fileprovider": TypeRule(suffix: ".pushkit.fileprovider", priorities: anyPriority, payloadLimit: 4096),
        "mdm": TypeRule(suffix: "", priorities: anyPriority, payloadLimit: 4096),
        "liveactivity": TypeRule(suffix: ".push-type.liveactivity", priorities: anyPriority, payloadLimit: 4096),
        "location": TypeRule(suffix: ".location-query", priorities: anyPriority, payloadLimit: 4096),
        "pushtotalk": TypeRule(suffix: ".voip-ptt", priorities: anyPriority, payloadLimit: 4096),
        "widgets": TypeRule(suffix: ".push-type.widgets", priorities: anyPriority, payloadLimit: 4096),
        "controls": TypeRule(suffix: ".push-type.controls", priorities: anyPriority, payloadLimit: 4096),
        "accessory": TypeRule(suffix: ".push-type.accessory", priorities: anyPriority, payloadLimit: 4096),
    ]

    /// - Parameters:
    ///   - credentialFault: why the provider token is refused.
    ///   - topics: the topics that the credential may push to; nil: all.
    ///   - state: what is known of the device token.
    static func answer(
        _ request: PushRequest,
        credentialFault: PushAnswer?,
        topics: Set<String>?,
        state: DeviceTokenState?
    ) -> PushAnswer {
        guard let token = request.deviceToken else { return .refused(404, "BadPath") }
        guard request.method == "POST" else { return .refused(405, "MethodNotAllowed") }
        if let credentialFault { return credentialFault }
        if request.hasDuplicates { return .refused(400, "DuplicateHeaders") }
        if token.isEmpty { return .refused(400, "MissingDeviceToken") }
        if let fault = Self.headerFault(request, topics: topics) { return fault }
        if request.body.isEmpty { return .refused(400, "PayloadEmpty") }
        let limit = Self.types[request.pushType ?? "alert"]?.payloadLimit ?? 4096
        if request.body.count > limit { return .refused(413, "PayloadTooLarge") }
        if !Self.isDeviceToken(token) { return .refused(400, "BadDeviceToken") }
        switch state {
        case nil, .valid: return .accepted
        case .unregistered(let since): return .refused(410, "Unregistered", timestamp: since)
        case .expired(let since): return .refused(410, "ExpiredToken", timestamp: since)
        case .bad: return .refused(400, "BadDeviceToken")
        case .notForTopic: return .refused(400, "DeviceTokenNotForTopic")
        }
    }

    private static func headerFault(_ request: PushRequest, topics: Set<String>?) -> PushAnswer? {
        if let id = request.id, APNSID(id) == nil { return .refused(400, "BadMessageId") }
        if let expiration = request.expiration {
            guard let seconds = Int64(expiration), seconds >= 0 else { return .refused(400, "BadExpirationDate") }
        }
        if let collapseID = request.collapseID, collapseID.utf8.count > 64 { return .refused(400, "BadCollapseId") }
        var rule = Self.types["alert"]
        if let pushType = request.pushType {
            guard let known = Self.types[pushType] else { return .refused(400, "InvalidPushType") }
            rule = known
        }
        if let priority = request.priority, let rule, !rule.priorities.contains(priority) {
            return .refused(400, "BadPriority")
        }
        guard let topic = request.topic, !topic.isEmpty else { return .refused(400, "MissingTopic") }
        if let rule, !topic.hasSuffix(rule.suffix) { return .refused(400, "BadTopic") }
        if let topics, !topics.contains(topic) { return .refused(400, "TopicDisallowed") }
        return nil
    }

    private static func isDeviceToken(_ text: Substring) -> Bool {
        text.utf8.count.isMultiple(of: 2)
            && text.utf8.allSatisfy {
                ($0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9"))
                    || ($0 | 0x20 >= UInt8(ascii: "a") && $0 | 0x20 <= UInt8(ascii: "f"))
            }
    }
}
