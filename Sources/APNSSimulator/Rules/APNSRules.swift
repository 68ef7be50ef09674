internal import APNSModel
internal import APNSBasics

/// What APNs answers to a request: a status and, unless it is 200, a reason.
struct Verdict: Sendable, Hashable {
    var status: Int
    var reason: RejectionReason?
    /// Milliseconds since 1970; with status 410 only.
    var timestamp: Int64?

    static let accepted = Verdict(status: 200)

    /// The status comes from the table of reasons.
    static func rejected(_ reason: RejectionReason, timestamp: Int64? = nil) -> Verdict {
        Verdict(status: reason.status ?? 400, reason: reason, timestamp: timestamp)
    }

    /// The response's body: empty for 200.
    var body: [UInt8] {
        guard let reason else { return [] }
        // Reasons are made of letters; what a script names may hold anything.
        let text = reason.rawValue.unicodeScalars.flatMap { scalar -> [Unicode.Scalar] in
            switch scalar {
            case "\"", "\\": ["\\", scalar]
            case "\u{0}"..."\u{1F}": ["?"]
            default: [scalar]
            }
        }
        var body = "{\"reason\":\""
        body.unicodeScalars.append(contentsOf: text)
        body += "\""
        if let timestamp { body += ",\"timestamp\":\(timestamp)" }
        return Array((body + "}").utf8)
    }
}

/// APNs' checks of one request to a device, in their order. Pure: no clock, no randomness, no network.
///
/// Source: Apple, "Sending notification requests to APNs" and "Handling notification responses from APNs". Apple does
/// not document the order of the checks nor which reason a topic without its suffix gets; here it is `BadTopic`.
struct APNSRules: Sendable {
    /// The bundle IDs that pushes may go to; nil: all.
    var topics: Set<String>?
    /// By device token in lower case; one that is missing is valid.
    var tokenStates: [String: DeviceTokenState] = [:]

    private static let types = PushType.known.map { type in
        (
            name: Array(type.rawValue.utf8), suffix: Array(type.topicSuffix.utf8), payloadLimit: type.payloadLimit,
            type: type
        )
    }
    private static let commonPayloadLimit = 4096
    private static let collapseIDLimit = 64

    /// - Parameters:
    ///   - bodyCount: the payload's bytes.
    ///   - credentialFault: what is wrong with the provider token; nil if nothing is.
    func verdict(on request: RequestView, bodyCount: Int, credentialFault: RejectionReason?) -> Verdict {
        guard let method = request.method, Bytes.equal(method, "POST") else { return .rejected(.methodNotAllowed) }
        guard let token = request.deviceToken else {
            if let path = request.path, Bytes.equal(path, "/3/device") { return .rejected(.missingDeviceToken) }
            return .rejected(.badPath)
        }
        if token.isEmpty { return .rejected(.missingDeviceToken) }
        if token.contains(UInt8(ascii: "/")) { return .rejected(.badPath) }
        guard token.count.isMultiple(of: 2), token.allSatisfy({ Hexadecimal.value($0) != nil }) else {
            return .rejected(.badDeviceToken)
        }
        if let credentialFault { return .rejected(credentialFault) }
        if request.hasDuplicates { return .rejected(.duplicateHeaders) }

        var payloadLimit = Self.commonPayloadLimit
        var suffix: [UInt8]?
        var isBackground = false
        if let name = request.pushType {
            guard let type = Self.types.first(where: { name.elementsEqual($0.name) }) else {
                return .rejected(.invalidPushType)
            }
            payloadLimit = type.payloadLimit
            isBackground = type.type == .background
            // The topic of device management is the certificate's UID, of any form.
            suffix = type.type == .mdm ? nil : type.suffix
        }
        if let fault = self.topicFault(request.topic, suffix: suffix) { return .rejected(fault) }
        if let id = request.id, !Bytes.isUUID(id) { return .rejected(.badMessageID) }
        if let expiration = request.expiration, Bytes.decimal(expiration) == nil {
            return .rejected(.badExpirationDate)
        }
        if let text = request.priority {
            let priority = Bytes.decimal(text)
            guard priority == 1 || priority == 5 || priority == 10, !(isBackground && priority == 10) else {
                return .rejected(.badPriority)
            }
        }
        if let collapseID = request.collapseID, collapseID.isEmpty || collapseID.count > Self.collapseIDLimit {
            return .rejected(.badCollapseID)
        }
        if bodyCount == 0 { return .rejected(.payloadEmpty) }
        if bodyCount > payloadLimit { return .rejected(.payloadTooLarge) }
        return self.verdict(onToken: request)
    }

    private func topicFault(_ topic: RequestView.Field?, suffix: [UInt8]?) -> RejectionReason? {
        guard let topic, !topic.isEmpty else { return .missingTopic }
        if let topics, topics.contains(Bytes.text(topic)) {
            // Named with its suffix, or an app whose name looks like one.
            if let suffix, !Bytes.hasSuffix(topic, suffix) { return .badTopic }
            return nil
        }
        var bundleID = topic
        if let suffix {
            if suffix.isEmpty {
                if Self.types.contains(where: { !$0.suffix.isEmpty && Bytes.hasSuffix(topic, $0.suffix) }) {
                    return .badTopic
                }
            } else {
                guard Bytes.hasSuffix(topic, suffix) else { return .badTopic }
                bundleID = RequestView.Field(rebasing: topic.dropLast(suffix.count))
            }
        }
        if let topics, !topics.contains(Bytes.text(bundleID)) { return .topicDisallowed }
        return nil
    }

    private func verdict(onToken request: RequestView) -> Verdict {
        guard !self.tokenStates.isEmpty, let state = self.tokenStates[request.deviceTokenText] else {
            return .accepted
        }
        switch state {
        case .valid: return .accepted
        case .unregistered(let time): return .rejected(.unregistered, timestamp: time)
        case .expired(let time): return .rejected(.expiredToken, timestamp: time)
        case .bad: return .rejected(.badDeviceToken)
        case .notForTopic: return .rejected(.deviceTokenNotForTopic)
        }
    }
}
