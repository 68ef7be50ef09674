internal import APNSModel
internal import APNSBasics

/// APNs' decision on a request: a status and, unless it is 200, a reason.
struct Verdict: Sendable, Hashable {
    var status: Int
    var reason: RejectionReason?
    /// Milliseconds since 1970; with status 410 only.
    var timestamp: Int64?

    static let accepted = Verdict(status: 200)

    /// A rejection with the status from the table of reasons.
    static func rejected(_ reason: RejectionReason, timestamp: Int64? = nil) -> Verdict {
        Verdict(status: reason.status ?? 400, reason: reason, timestamp: timestamp)
    }

    /// The response's body: empty for 200.
    var body: [UInt8] {
        guard let reason else { return [] }
        var writer = JSONByteWriter()
        writer.literal(#"{"reason":"#)
        writer.string(reason.rawValue)
        if let timestamp {
            writer.literal(#","timestamp":"#)
            writer.integer(timestamp)
        }
        writer.literal("}")
        return writer.bytes()
    }
}

/// APNs' checks of one request to a device, in the order in which they run. Pure: no clock, no randomness, no network.
///
/// Source: Apple, "Sending notification requests to APNs" and "Handling notification responses from APNs". Apple
/// documents neither the order of the checks nor the reason for a topic without its suffix; here it is `BadTopic`.
struct APNSRules: Sendable {
    /// The allowed bundle IDs; nil for all.
    var topics: Set<String>?
    /// The states by device token in lower case. A token without an entry is valid.
    var tokenStates: [String: DeviceTokenState] = [:]

    private static let types = PushType.known.map { type in
        (
            name: Array(type.rawValue.utf8), suffix: Array(type.topicSuffix.utf8), payloadLimit: type.payloadLimit,
            type: type
        )
    }

    /// - Parameters:
    ///   - bodyCount: the payload's size in bytes.
    ///   - credentialFault: the error of the provider token; nil if there is none.
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

        var payloadLimit = PushType.alert.payloadLimit
        var suffix: [UInt8]?
        var isBackground = false
        if let name = request.pushType {
            guard let type = Self.types.first(where: { name.elementsEqual($0.name) }) else {
                return .rejected(.invalidPushType)
            }
            payloadLimit = type.payloadLimit
            isBackground = type.type == .background
            // For device management the topic is the certificate's UID, which may have any form.
            suffix = type.type == .mdm ? nil : type.suffix
        }
        if let fault = self.topicFault(request.topic, suffix: suffix) { return .rejected(fault) }
        if let id = request.id, APNSID(utf8: id) == nil { return .rejected(.badMessageID) }
        if let expiration = request.expiration, Bytes.decimal(expiration) == nil {
            return .rejected(.badExpirationDate)
        }
        if let text = request.priority {
            let priority = Bytes.decimal(text)
            guard priority == 1 || priority == 5 || priority == 10, !(isBackground && priority == 10) else {
                return .rejected(.badPriority)
            }
        }
        if let collapseID = request.collapseID, collapseID.isEmpty || collapseID.count > CollapseID.maximumBytes {
            return .rejected(.badCollapseID)
        }
        if bodyCount == 0 { return .rejected(.payloadEmpty) }
        if bodyCount > payloadLimit { return .rejected(.payloadTooLarge) }
        return self.verdict(onToken: request)
    }

    private func topicFault(_ topic: RequestView.Field?, suffix: [UInt8]?) -> RejectionReason? {
        guard let topic, !topic.isEmpty else { return .missingTopic }
        if let topics, topics.contains(Bytes.text(topic)) {
            // The topic includes the suffix, or is an app whose name ends like it.
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
        case .busy: return .rejected(.tooManyRequests)
        }
    }
}
