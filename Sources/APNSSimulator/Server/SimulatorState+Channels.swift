public import APNSModel
internal import APNSBasics
internal import APNSTransport
internal import Synchronization

// Broadcasts and channel management.
extension SimulatorState {
    /// The response to a request about channels; nil for all other requests.
    func plan(
        _ view: RequestView,
        _ body: [UInt8],
        credentialFault: RejectionReason?,
        _ now: Now
    ) -> ChannelStore.Plan? {
        guard let request = ChannelRequest(view) else { return nil }
        return self.channels.plan(request, view, body: body, credentialFault: credentialFault, now: now.instant)
    }

    /// Carries out the decision if it counts as processed.
    ///
    /// - Returns: the id of the new channel; nil if none was created.
    mutating func carryOut(_ plan: ChannelStore.Plan?, isProcessed: Bool, _ now: Now) -> String? {
        guard let plan, isProcessed else { return nil }
        return self.channels.carryOut(
            plan,
            newID: {
                let numbers = [self.random.next(), self.random.next()]
                let bytes = numbers.flatMap { number in
                    (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
                }
                return Base64.encode(bytes)
            },
            now: now.instant
        )
    }

    /// Records a channel call.
    ///
    /// - Parameter madeID: the id of the new channel.
    mutating func record(
        _ call: ChannelRequest,
        _ request: ServerRequest,
        id: APNSID?,
        _ connection: ConnectionState,
        _ now: Now,
        _ note: Note,
        isProcessed: Bool,
        madeID: String?
    ) {
        self.ledger.append(
            ChannelCallRecord(
                operation: call.operation,
                bundleID: call.bundleID,
                channelID: madeID ?? call.channelID,
                requestID: id,
                connection: connection.number,
                time: now.instant,
                payload: self.configuration.recording == .pushes ? request.body : [],
                status: note.verdict?.status,
                reason: note.verdict?.reason,
                fate: note.fate,
                isProcessed: isProcessed
            )
        )
    }
}

extension Simulator {
    /// Adds a channel, as if `create` had created it.
    ///
    /// - Parameters:
    ///   - id: base64 text, like APNs' ids.
    ///   - bundleID: the app that it belongs to.
    ///   - storage: the storage policy. With `noMessage`, broadcasts must have the expiration 0.
    public func addChannel(_ id: String, to bundleID: String, storage: MessageStoragePolicy = .noMessage) {
        self.core.update { $0.channels.add(id, to: bundleID, storage: storage) }
    }

    /// The channels of an app, in the order of creation.
    public func channels(of bundleID: String) -> [String] {
        self.core.state.withLock { $0.channels.apps[bundleID]?.order ?? [] }
    }

    /// Enables or disables broadcasts for an app, as in the developer portal. Disabling deletes its channels.
    public func setBroadcastEnabled(_ isEnabled: Bool, for bundleID: String) {
        self.core.update { state in
            var app = ChannelStore.App()
            app.isEnabled = isEnabled
            if isEnabled, let known = state.channels.apps[bundleID], known.isEnabled { app = known }
            state.channels.apps[bundleID] = app
        }
    }
}
