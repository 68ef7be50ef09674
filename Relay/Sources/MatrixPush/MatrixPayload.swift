/// The payload of a notification, as the apps of Matrix' reference gateway (Sygnal) expect it.
///
/// With a notification that only has ids (`event_id_only`), the payload has them and the counts beside what the app has
/// registered as `default_payload`. With a full one, an alert names the sender, the room and the text by a key of the app's
/// strings, and the badge is the sum of the counts.
struct MatrixPayload: Sendable, Hashable {
    /// The longest name of a sender or a room, in characters.
    private static let maxNameCount = 1_024
    /// The largest payload of a notification, in bytes.
    private static let maxBytes = 4_096

    private(set) var root: [String: MatrixJSON]

    /// - Returns: nil if there is nothing to tell the device.
    init?(_ content: MatrixNotification.Content, _ device: MatrixDevice) {
        if content.eventID != nil, content.type == nil {
            self.root = Self.ids(content, device)
        } else {
            guard let root = Self.full(content, device) else { return nil }
            self.root = root
        }
        guard let sound = device.sound, var aps = self.root["aps"]?.members, aps["alert"] != nil, aps["sound"] == nil
        else {
            return
        }
        aps["sound"] = .text(sound)
        self.root["aps"] = .object(aps)
    }

    /// The payload for a notification that only has ids.
    private static func ids(_ content: MatrixNotification.Content, _ device: MatrixDevice) -> [String: MatrixJSON] {
        var root = device.defaultPayload ?? [:]
        root["room_id"] = content.roomID.map { .text($0) } ?? root["room_id"]
        root["event_id"] = content.eventID.map { .text($0) } ?? root["event_id"]
        root["unread_count"] = content.unread.map { .integer($0) } ?? root["unread_count"]
        root["missed_calls"] = content.missedCalls.map { .integer($0) } ?? root["missed_calls"]
        return root
    }

    /// The payload for a full notification, or for one that only has counts.
    private static func full(_ content: MatrixNotification.Content, _ device: MatrixDevice) -> [String: MatrixJSON]? {
        let alert = Self.alert(content)
        let badge = Self.badge(content)
        guard alert != nil || badge != nil else { return nil }
        var root = content.type == nil ? [:] : device.defaultPayload ?? [:]
        var aps = root["aps"]?.members ?? [:]
        if let alert {
            var members = aps["alert"]?.members ?? [:]
            members["loc-key"] = .text(alert.key)
            members["loc-args"] = .array(alert.arguments.map { .text($0) })
            aps["alert"] = .object(members)
            root["room_id"] = content.roomID.map { .text($0) } ?? root["room_id"]
            root["event_id"] = content.eventID.map { .text($0) } ?? root["event_id"]
        }
        if let badge { aps["badge"] = .integer(badge) }
        root["aps"] = .object(aps)
        return root
    }

    private static func badge(_ content: MatrixNotification.Content) -> Int64? {
        guard content.unread != nil || content.missedCalls != nil else { return nil }
        let sum = (content.unread ?? 0).addingReportingOverflow(content.missedCalls ?? 0)
        return sum.overflow ? .max : sum.partialValue
    }

    // MARK: The alert

    /// A key of the app's strings, and what its text contains.
    private typealias LocalizedText = (key: String, arguments: [String])

    private static func alert(_ content: MatrixNotification.Content) -> LocalizedText? {
        let sender = self.name(content.senderDisplayName) ?? self.name(content.sender) ?? " "
        let room = self.name(content.roomName) ?? self.name(content.roomAlias)
        switch content.type {
        case nil: return nil
        case "m.room.message", "m.room.encrypted": return self.message(content.event, from: sender, in: room)
        case "m.call.invite":
            let isVideo = content.event?["offer"]?["sdp"]?.text?.contains("m=video") == true
            return (isVideo ? "VIDEO_CALL_FROM_USER" : "VOICE_CALL_FROM_USER", [sender])
        case "m.room.member":
            guard content.isForTarget, content.membership == "invite" else { return nil }
            return room.map { ("USER_INVITE_TO_NAMED_ROOM", [sender, $0]) } ?? ("USER_INVITE_TO_CHAT", [sender])
        default: return ("MSG_FROM_USER", [sender])
        }
    }

    private static func message(_ event: MatrixJSON?, from sender: String, in room: String?) -> LocalizedText {
        let kind = event?["msgtype"]?.text
        let body = kind == nil ? nil : event?["body"]?.text
        switch (body, room) {
        case (let body?, let room?):
            return switch kind {
            case "m.image": ("IMAGE_FROM_USER_IN_ROOM", [sender, body, room])
            case "m.emote": ("ACTION_FROM_USER_IN_ROOM", [room, sender, body])
            default: ("MSG_FROM_USER_IN_ROOM_WITH_CONTENT", [sender, room, body])
            }
        case (let body?, nil):
            return switch kind {
            case "m.image": ("IMAGE_FROM_USER", [sender, body])
            case "m.emote": ("ACTION_FROM_USER", [sender, body])
            default: ("MSG_FROM_USER_WITH_CONTENT", [sender, body])
            }
        case (nil, let room?): return ("MSG_FROM_USER_IN_ROOM", [sender, room])
        case (nil, nil): return ("MSG_FROM_USER", [sender])
        }
    }

    private static func name(_ text: String?) -> String? {
        guard let text, !text.isEmpty else { return nil }
        return String(text.prefix(self.maxNameCount))
    }

    // MARK: The size

    /// The bytes. If they are too many, the longest texts of the alert are cut at the end, by whole characters, to the largest
    /// size with which the payload fits. If that does not suffice, the bytes are too many all the same.
    var fitting: [UInt8] {
        let bytes = MatrixJSON.object(self.root).bytes
        guard bytes.count > Self.maxBytes, let alert = self.root["aps"]?["alert"] else { return bytes }
        guard self.bytes(textLimit: 0).count <= Self.maxBytes else { return bytes }
        var (low, high) = (0, min(Self.texts(of: alert).map(\.utf8.count).max() ?? 0, Self.maxBytes))
        while low < high {
            let middle = (low + high + 1) / 2
            if self.bytes(textLimit: middle).count <= Self.maxBytes { low = middle } else { high = middle - 1 }
        }
        return self.bytes(textLimit: low)
    }

    /// The bytes with texts of at most a number of bytes.
    private func bytes(textLimit limit: Int) -> [UInt8] {
        guard var aps = self.root["aps"]?.members, let alert = aps["alert"] else { return [] }
        aps["alert"] = Self.alert(alert, with: Self.texts(of: alert).map { Self.prefix(of: $0, limit) })
        var root = self.root
        root["aps"] = .object(aps)
        return MatrixJSON.object(root).bytes
    }

    private static func prefix(of text: String, _ limit: Int) -> String {
        guard text.utf8.count > limit else { return text }
        // The next character after the limit begins where the last one that may stay ends, or later.
        let next = text.index(after: text.utf8.index(text.startIndex, offsetBy: limit))
        return String(text[..<text.index(before: next)])
    }

    /// The texts of an alert that may be cut: the alert itself, or its body and the arguments of its text.
    private static func texts(of alert: MatrixJSON) -> [String] {
        if let text = alert.text { return [text] }
        guard case .array(let arguments) = alert["loc-args"] ?? .array([]) else { return [alert["body"]?.text ?? ""] }
        return [alert["body"]?.text ?? ""] + arguments.map { $0.text ?? "" }
    }

    private static func alert(_ alert: MatrixJSON, with texts: [String]) -> MatrixJSON {
        guard var members = alert.members else { return .text(texts.first ?? "") }
        if members["body"]?.text != nil { members["body"] = texts.first.map { .text($0) } }
        if case .array(let arguments) = members["loc-args"] {
            members["loc-args"] = .array(
                zip(arguments, texts.dropFirst()).map { argument, text in argument.text == nil ? argument : .text(text)
                }
            )
        }
        return .object(members)
    }
}
