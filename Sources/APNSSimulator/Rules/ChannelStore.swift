internal import APNSModel

/// The channels of all apps, and APNs' checks of requests about them. Pure: no clock, no randomness, no network.
///
/// Source: Apple, "Sending broadcast push notification requests to APNs", "Sending channel management requests to APNs"
/// and "Handling error responses from APNs". If APNs was observed to differ from these pages, this type follows APNs: a
/// channel that never existed gets `BadChannelId`, a deleted one gets `ChannelNotRegistered`, and deleting either gets
/// 404 `BadPath`.
struct ChannelStore: Sendable {
    struct Channel: Sendable {
        var id: String
        var storage: MessageStoragePolicy
        var lastBroadcast: ContinuousClock.Instant?
    }

    struct App: Sendable {
        var channels: [String: Channel] = [:]
        /// The ids in the order of creation.
        var order: [String] = []
        var deleted: Set<String> = []
        /// Whether the app's push capability includes "Broadcast" in the developer portal.
        var isEnabled = true
    }

    /// The response to a request, and the effect of the request if it counts as processed.
    struct Plan: Sendable {
        enum Effect: Sendable, Hashable {
            case nothing
            case broadcast
            case create(storage: MessageStoragePolicy)
            case delete
        }

        var request: ChannelRequest
        var verdict: Verdict
        var effect = Effect.nothing
        /// The body of a response that is not a rejection.
        var body: [UInt8] = []
    }

    var apps: [String: App] = [:]
    /// The most channels per app.
    var maximum = 10_000
    /// The shortest time between two broadcasts to a channel; nil for no limit.
    var spacing: Duration?
    /// The allowed bundle IDs; nil for all.
    var topics: Set<String>?

    // MARK: Checks

    /// - Parameters:
    ///   - credentialFault: the error of the provider token; nil if there is none.
    func plan(
        _ request: ChannelRequest,
        _ view: RequestView,
        body: [UInt8],
        credentialFault: RejectionReason?,
        now: ContinuousClock.Instant
    ) -> Plan {
        var plan = Plan(request: request, verdict: .accepted)
        if let fault = self.fault(request, view, credentialFault) {
            plan.verdict = .rejected(fault)
            return plan
        }
        let app = self.apps[request.bundleID] ?? App()
        switch request.operation {
        case .broadcast:
            plan.effect = .broadcast
            if let fault = self.broadcastFault(app, request, view, body, now) { plan.verdict = .rejected(fault) }
        case .create:
            plan.verdict = Verdict(status: 201)
            switch Self.storage(in: body) {
            case .failure(let fault): plan.verdict = .rejected(fault.reason)
            case .success where app.channels.count >= self.maximum:
                plan.verdict = .rejected(.cannotCreateChannelConfig)
            case .success(let storage): plan.effect = .create(storage: storage)
            }
        case .read:
            switch Self.channel(app, request) {
            case .failure(let fault): plan.verdict = .rejected(fault.reason)
            case .success(let channel):
                plan.body = Array(
                    #"{"message-storage-policy":\#(channel.storage.rawValue),"push-type":"LiveActivity"}"#.utf8
                )
            }
        case .delete:
            plan.verdict = Verdict(status: 204)
            plan.effect = .delete
            if request.channelID == nil {
                plan.verdict = .rejected(.missingChannelID)
            } else if request.channelID.flatMap({ app.channels[$0] }) == nil {
                plan.verdict = .rejected(.badPath)
            }
        default:
            plan.body = JSONValue.object(["channels": .array(app.order.map { .string($0) })]).bytes
        }
        return plan
    }

    /// The checks that apply to all requests, in the order in which they run.
    private func fault(
        _ request: ChannelRequest,
        _ view: RequestView,
        _ credentialFault: RejectionReason?
    ) -> RejectionReason? {
        if request.operation == .unknown { return .methodNotAllowed }
        if let credentialFault { return credentialFault }
        if view.hasDuplicates { return .duplicateHeaders }
        if request.bundleID.hasSuffix(PushType.liveactivity.topicSuffix) { return .topicDisallowed }
        if let topics, !topics.contains(request.bundleID) { return .topicDisallowed }
        if self.apps[request.bundleID]?.isEnabled == false { return .broadcastFeatureNotEnabled }
        if let id = view.requestID, APNSID(utf8: id) == nil { return .badMessageID }
        return nil
    }

    private func broadcastFault(
        _ app: App,
        _ request: ChannelRequest,
        _ view: RequestView,
        _ body: [UInt8],
        _ now: ContinuousClock.Instant
    ) -> RejectionReason? {
        let channel: Channel
        switch Self.channel(app, request) {
        case .failure(let fault): return fault.reason
        case .success(let found): channel = found
        }
        guard let type = view.pushType else { return .missingPushType }
        guard Bytes.text(type).lowercased() == "liveactivity" else { return .invalidPushType }
        guard let priority = view.priority.flatMap(Bytes.decimal), [1, 5, 10].contains(priority) else {
            return .badPriority
        }
        guard let expiration = view.expiration.flatMap(Bytes.decimal),
            expiration == 0 || channel.storage == .mostRecentMessage
        else {
            return .badExpirationDate
        }
        if body.isEmpty { return .payloadEmpty }
        if body.count > PushType.broadcastPayloadLimit { return .payloadTooLarge }
        guard let payload = JSONValue(json: body)?.members else { return .badRequestPayload }
        if payload["aps"]?.members?["event"] == .string("start") { return .badRequestPayload }
        if let spacing, let last = channel.lastBroadcast, last.duration(to: now) < spacing { return .tooManyRequests }
        return nil
    }

    private struct Fault: Error {
        var reason: RejectionReason
    }

    private static func channel(_ app: App, _ request: ChannelRequest) -> Result<Channel, Fault> {
        guard let id = request.channelID, !id.isEmpty else { return .failure(Fault(reason: .missingChannelID)) }
        if let channel = app.channels[id] { return .success(channel) }
        return .failure(Fault(reason: app.deleted.contains(id) ? .channelNotRegistered : .badChannelID))
    }

    private static func storage(in body: [UInt8]) -> Result<MessageStoragePolicy, Fault> {
        if body.isEmpty { return .failure(Fault(reason: .payloadEmpty)) }
        guard let members = JSONValue(json: body)?.members else {
            return .failure(Fault(reason: .badRequestPayload))
        }
        guard case .integer(let storage)? = members["message-storage-policy"], storage == 0 || storage == 1 else {
            return .failure(Fault(reason: .missingChannelQueueSize))
        }
        guard let type = members["push-type"] else { return .failure(Fault(reason: .missingPushType)) }
        guard case .string(let name) = type, name.lowercased() == "liveactivity" else {
            return .failure(Fault(reason: .invalidPushType))
        }
        return .success(storage == 0 ? .noMessage : .mostRecentMessage)
    }

    // MARK: Effects

    /// Carries out a plan.
    ///
    /// - Parameter newID: generates the id of a new channel.
    /// - Returns: the id of the new channel; nil if none was created.
    mutating func carryOut(_ plan: Plan, newID: () -> String, now: ContinuousClock.Instant) -> String? {
        let bundleID = plan.request.bundleID
        switch plan.effect {
        case .nothing:
            return nil
        case .broadcast:
            if let id = plan.request.channelID { self.apps[bundleID]?.channels[id]?.lastBroadcast = now }
            return nil
        case .create(let storage):
            let id = newID()
            self.add(id, to: bundleID, storage: storage)
            return id
        case .delete:
            if let id = plan.request.channelID { self.remove(id, from: bundleID) }
            return nil
        }
    }

    mutating func add(_ id: String, to bundleID: String, storage: MessageStoragePolicy) {
        let isNew = self.apps[bundleID, default: App()].channels.updateValue(
            Channel(id: id, storage: storage),
            forKey: id
        )
        if isNew == nil { self.apps[bundleID, default: App()].order.append(id) }
    }

    mutating func remove(_ id: String, from bundleID: String) {
        guard self.apps[bundleID]?.channels.removeValue(forKey: id) != nil else { return }
        self.apps[bundleID]?.order.removeAll { $0 == id }
        self.apps[bundleID]?.deleted.insert(id)
    }
}
