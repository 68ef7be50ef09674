internal import APNSModel

extension PushRecord: CustomStringConvertible {
    /// The longest summary, in characters.
    private static let summaryLimit = 100
    /// The longest part of a description, in Unicode scalars.
    private static let partLimit = 40

    /// One short line for the message of a failed test, for example
    /// `#1 alert com.example.shop → 00fa11ce "Order shipped" collapse order-1: 410 Unregistered`. Long values are
    /// shortened. Without a response, the line ends with the push's fate. If the push was processed but 200 was not sent,
    /// `, processed` follows.
    public var description: String {
        var parts = ["#\(self.order)"]
        if let pushType { parts.append(Self.excerpt(pushType.rawValue)) }
        if let topic { parts.append(Self.excerpt(topic)) }
        parts.append("→ \(Self.excerpt(self.channelID.map { "channel \($0)" } ?? self.deviceToken))")
        if let summary, summary != self.pushType?.rawValue { parts.append("\"\(Self.excerpt(summary))\"") }
        if let collapseID { parts.append("collapse \(Self.excerpt(collapseID))") }
        return "\(parts.joined(separator: " ")): \(self.result)"
    }

    private var result: String {
        var words = [self.fate.rawValue]
        if self.fate == .responded, let status {
            words = ["\(status)"]
            if let reason { words.append(Self.excerpt(reason.rawValue)) }
        }
        return words.joined(separator: " ") + (self.isProcessed && self.outcome != .accepted ? ", processed" : "")
    }

    /// A text without line breaks and other control characters, cut at the limit.
    private static func excerpt(_ text: String) -> String {
        var excerpt = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            if excerpt.count == self.partLimit { return String(excerpt) + "…" }
            switch scalar.properties.generalCategory {
            case .control, .lineSeparator, .paragraphSeparator: excerpt.append(" ")
            default: excerpt.append(scalar)
            }
        }
        return String(excerpt)
    }

    /// A short text that identifies the push for a person: the alert's title and body, otherwise the event of the Live
    /// Activity, otherwise what is wrong with the payload, otherwise the push type. Nil without a recorded payload.
    package var summary: String? {
        if self.payload.isEmpty { return nil }
        let aps = JSONParser.leadingMembers(self.payload).first { $0.key == "aps" }?.value.members ?? [:]
        var parts: [String] = []
        switch aps["alert"] {
        case .string(let body): parts = [body]
        case .object(let members):
            for key in ["title", "body", "title-loc-key", "loc-key"] {
                guard case .string(let text)? = members.first(where: { $0.key == key })?.value else { continue }
                parts.append(text)
            }
        default: break
        }
        if parts.isEmpty, case .string(let event)? = aps["event"] { parts = [event] }
        if parts.isEmpty { parts = [self.problem(aps) ?? self.pushType?.rawValue ?? "(no alert)"] }
        return String(parts.joined(separator: " – ").prefix(Self.summaryLimit))
    }

    /// What is wrong with a payload without a text: it is not JSON, or a push type that needs `aps` has none.
    private func problem(_ aps: [String: JSONValue]) -> String? {
        guard let payload = JSONValue(json: self.payload) else { return "(not JSON)" }
        guard let members = payload.members else { return "(not a JSON object)" }
        let type = self.pushType ?? .alert
        guard aps.isEmpty, [.alert, .background, .liveactivity].contains(type) else { return nil }
        return members["aps"] == nil ? "(no aps)" : "(empty aps)"
    }

    /// The summary of a push to a Live Activity: its alert, otherwise its event and what it changes.
    ///
    /// - Parameter previous: The push before it to the same activity; nil if there is none.
    package func activitySummary(after previous: PushRecord?) -> String? {
        guard let state = self.contentState, let summary, case .string(let event)? = state.event, summary == event
        else {
            return self.summary
        }
        let before = previous?.contentState?.values ?? []
        let changes = state.values.compactMap { member -> String? in
            let old = before.first { $0.key == member.key }?.value
            if old == member.value { return nil }
            return "\(member.key) \(old.map { "\($0.plainText) → " } ?? "")\(member.value.plainText)"
        }
        let removed = before.filter { old in !state.values.contains { $0.key == old.key } }.map { "\($0.key) removed" }
        let all = changes + removed
        if all.isEmpty { return before.isEmpty ? event : "\(event): nothing changed" }
        return String("\(event): \(all.joined(separator: ", "))".prefix(Self.summaryLimit))
    }

    private var contentState: (event: JSONValue?, values: [JSONValue.Member])? {
        guard case .object(let root)? = JSONValue(json: self.payload),
            case .object(let aps)? = root.first(where: { $0.key == "aps" })?.value
        else { return nil }
        let event = aps.first { $0.key == "event" }?.value
        guard case .object(let values)? = aps.first(where: { $0.key == "content-state" })?.value else {
            return (event, [])
        }
        return (event, values)
    }
}

extension JSONValue {
    /// The value as text, a string without its quotation marks.
    fileprivate var plainText: String {
        if case .string(let text) = self { return text }
        return String(decoding: self.bytes, as: UTF8.self)
    }
}
