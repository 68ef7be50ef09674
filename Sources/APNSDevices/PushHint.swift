package import APNSModel

/// What a developer should know about a push that the simulator accepted or rejected.
public struct PushHint: Sendable, Hashable, Encodable {
    /// What is unusual, and what to do.
    public var message: String
    /// The page that states the rule.
    public var source: String

    /// The hints for a push or broadcast.
    ///
    /// - Parameters:
    ///   - payload: what was recorded of the payload; without the whole payload, there are no hints for it.
    ///   - payloadBytes: the size of the whole payload.
    ///   - payloadLimit: the largest payload that APNs accepts for this type.
    ///   - isBroadcast: whether the push went to a channel.
    ///   - now: when it arrived, in milliseconds since 1970.
    package static func hints(
        type: PushType?,
        topic: String,
        priority: Priority?,
        expiration: Int64?,
        payload: [UInt8],
        payloadBytes: Int,
        payloadLimit: Int,
        isBroadcast: Bool,
        now: Int64
    ) -> [PushHint] {
        var hints = HintCollector(
            type: type,
            topic: topic,
            priority: priority,
            expiration: expiration,
            payload: payload,
            payloadBytes: payloadBytes,
            payloadLimit: payloadLimit,
            now: now
        )
        // APNs rejects a broadcast whose headers are missing or wrong, so they need no hints.
        if isBroadcast { hints.checkExpiration() } else { hints.checkHeaders() }
        hints.checkPayload()
        return hints.hints
    }

    /// The meaning of a rejection; nil for a reason that Apple does not list.
    package static func meaning(of reason: RejectionReason) -> PushHint? {
        reason.meaning.map { PushHint(message: "\(reason): \($0).", source: ApplePage.responses) }
    }

    /// The provider token's `iat` is a text or has a fraction.
    package static let issueTime = PushHint(
        message:
            "iat in the provider token is not a whole number. APNs has accepted such tokens for years, but Apple asks "
            + "for the seconds since 1970 as a number. Update the library, or round the time.",
        source: ApplePage.tokens
    )
    /// The provider token is written in another alphabet than that of URLs.
    package static let tokenAlphabet = PushHint(
        message:
            "The provider token is written in plain Base64. APNs has accepted such tokens for years, but a JSON Web "
            + "Token uses the URL-safe alphabet without padding.",
        source: ApplePage.tokens
    )
}

/// Collects the hints for one push.
struct HintCollector {
    /// The value of `apns-push-type`.
    let type: PushType?
    let topic: String
    let priority: Priority?
    let expiration: Int64?
    let payload: [UInt8]
    let payloadBytes: Int
    let payloadLimit: Int
    /// In milliseconds since 1970.
    let now: Int64
    var hints: [PushHint] = []

    /// An expiration below this number, which is a date in 1973, is taken for a duration.
    static let longestDuration: Int64 = 100_000_000

    var seconds: Int64 { VirtualDevice.seconds(self.now) }

    /// The maximum number of hints: a payload of 5 KB may have hundreds of unknown keys.
    static let limit = 50

    mutating func add(_ message: String, _ source: String) {
        if self.hints.count < Self.limit { self.hints.append(PushHint(message: message, source: source)) }
    }

    // MARK: Headers

    mutating func checkHeaders() {
        if let type {
            self.checkPriority(type)
        } else {
            self.add(
                "apns-push-type is missing. Send it with every push: watchOS requires it, and without it APNs may "
                    + "delay or drop the push.",
                ApplePage.sending
            )
        }
        self.checkExpiration()
        guard self.type == .voip || self.type == .pushtotalk else { return }
        if self.expiration == nil || self.expiration ?? 0 > self.seconds.clampedSum(60) {
            self.add(
                "A late \(self.type == .voip ? "call" : "conversation") is useless. Set apns-expiration to 0, or to a "
                    + "few seconds from now.",
                self.type == .voip ? ApplePage.voip : ApplePage.pushToTalk
            )
        }
    }

    private mutating func checkPriority(_ type: PushType) {
        let priority = self.priority ?? .immediate
        let allowed = type.allowedPriorities
        guard !allowed.contains(priority) else { return }
        let names = allowed.map(\.description).joined(separator: " or ")
        let found = self.priority == nil ? "Without apns-priority it is 10" : "It is \(priority)"
        self.add("A push of type \(type) needs apns-priority \(names). \(found).", ApplePage.sending)
    }

    mutating func checkExpiration() {
        guard let expiration, expiration != 0 else { return }
        if expiration < Self.longestDuration {
            self.add(
                "apns-expiration \(expiration) looks like a duration, but it is a date in seconds since 1970. Add the "
                    + "current time.",
                ApplePage.sending
            )
        } else if expiration > Expiration.latestSeconds {
            self.add(
                "apns-expiration \(expiration) looks like milliseconds, but it is in seconds since 1970.",
                ApplePage.sending
            )
        } else if expiration <= self.seconds {
            self.add(
                "apns-expiration is in the past: APNs tries to deliver the push and does not keep it. Use 0 for that, "
                    + "or a later date.",
                ApplePage.sending
            )
        } else if expiration > self.seconds.clampedSum(VirtualDevice.longestStorage) {
            self.add(
                "apns-expiration is more than 30 days away, and APNs stores a push for at most 30 days.",
                ApplePage.sending
            )
        }
    }

    // MARK: Payload

    mutating func checkPayload() {
        if self.payloadBytes > self.payloadLimit {
            self.add(
                "The payload has \(self.payloadBytes) bytes, and APNs accepts \(self.payloadLimit).",
                ApplePage.payload
            )
        } else if self.payloadBytes * 10 > self.payloadLimit * 9 {
            self.add(
                "The payload has \(self.payloadBytes) of \(self.payloadLimit) bytes. Shorten it before a longer text "
                    + "makes APNs reject it.",
                ApplePage.payload
            )
        }
        // Without the whole payload nothing can be said about it.
        guard !self.payload.isEmpty, self.payload.count >= self.payloadBytes else { return }
        let payload: DevicePayload
        do {
            payload = try DevicePayload(self.payload)
        } catch {
            let fault = [error.rule.message, error.detail].compactMap(\.self).joined(separator: " ")
            // rpush/rpush#113 and Gypsyan/APNS_Safari_Push#2 report it.
            return self.add("\(fault) APNs does not read payloads: it accepts this one, too.", ApplePage.payload)
        }
        for (key, value) in payload.root.sorted(by: { $0.key < $1.key }) where key != "aps" && value.hasNull {
            self.add(
                "\(key.prefix(100)) is or contains null, which Apple does not list among the types of custom values. Leave "
                    + "the key out instead.",
                ApplePage.payload
            )
        }
        let type = self.type ?? AcceptedPush.type(ofTopic: self.topic) ?? .alert
        guard self.checkRoot(payload, type) else { return }
        self.checkKeys(payload)
        switch type {
        case .liveactivity: self.checkActivity(payload)
        case .alert: self.checkAlert(payload)
        case .background: self.checkBackground(payload)
        case .widgets, .controls:
            if payload.aps["content-changed"] != .bool(true) {
                self.add("A push of type \(type) needs content-changed: true in aps.", ApplePage.payload)
            }
        default: break
        }
    }

    /// Checks the root object. Returns whether there is an `aps` to check.
    private mutating func checkRoot(_ payload: DevicePayload, _ type: PushType) -> Bool {
        let rootKeys: [PushType: (key: String, source: String)] = [
            .mdm: ("mdm", ApplePage.deviceManagement), .fileprovider: ("container-identifier", ApplePage.fileProvider),
        ]
        if let root = rootKeys[type] {
            if payload.root[root.key]?.text == nil {
                self.add("A push of type \(type) needs \(root.key), a string, beside aps.", root.source)
            }
            return false
        }
        if payload.root["aps"] != nil { return true }
        // The app itself reads the payload of the other types.
        guard [.alert, .background, .liveactivity, .widgets, .controls, .accessory].contains(type) else { return false }
        let misplaced = payload.root.keys.filter { DevicePayload.kinds[$0] != nil }.sorted()
        let advice = misplaced.isEmpty ? "" : " Move \(misplaced.joined(separator: ", ")) into it."
        self.add("The payload has no aps, so the device shows and does nothing.\(advice)", ApplePage.payload)
        return false
    }

    private mutating func checkKeys(_ payload: DevicePayload) {
        for key in payload.aps.keys.sorted() where self.hints.count < Self.limit && DevicePayload.kinds[key] == nil {
            let known = DevicePayload.kinds.keys.first { Self.letters($0) == Self.letters(key) }
            let advice = known.map { "Did you mean \($0)?" } ?? "Put your own keys beside aps."
            self.add(
                "aps.\(key.prefix(100)) is not a key of Apple's, and devices ignore it. \(advice)",
                ApplePage.payload
            )
        }
        for (key, value) in payload.aps.sorted(by: { $0.key < $1.key }) where value == .null {
            self.add("aps.\(key.prefix(100)) is null. Leave the key out instead.", ApplePage.payload)
        }
        self.checkTypes(payload.aps, DevicePayload.kinds, "aps")
        if let sound = payload.aps["sound"]?.members { self.checkTypes(sound, DevicePayload.soundKinds, "aps.sound") }
    }

    mutating func checkTypes(_ object: [String: JSONValue], _ kinds: [String: DevicePayload.Kind], _ path: String) {
        for (key, kind) in DevicePayload.wrongTypes(object, kinds) {
            self.add("\(path).\(key) must be \(kind.name).", ApplePage.payload)
        }
    }

    /// A key without case and punctuation: it is equal for `contentAvailable` and `content-available`.
    private static func letters(_ name: String) -> String { name.lowercased().filter(\.isLetter) }
}

extension JSONValue {
    /// Whether this is null, or has a null anywhere inside.
    fileprivate var hasNull: Bool {
        switch self {
        case .null: true
        case .array(let values): values.contains { $0.hasNull }
        case .object: self.members?.values.contains { $0.hasNull } ?? false
        default: false
        }
    }
}

extension Int64 {
    /// The sum, limited to 64 bits.
    func clampedSum(_ other: Int64) -> Int64 {
        let (sum, overflow) = self.addingReportingOverflow(other)
        return overflow ? (other > 0 ? .max : .min) : sum
    }
}
