public import APNSDevices
public import APNSModel
internal import APNSTransport
internal import Synchronization

// The virtual devices of a simulator.
extension SimulatorState {
    /// Passes a push to the devices that receive it.
    mutating func deliver(_ push: PushRecord) {
        let storage = push.channelID.flatMap { self.channels.apps[push.topic ?? ""]?.channels[$0]?.storage }
        guard let accepted = AcceptedPush(push, storage: storage ?? .noMessage) else { return }
        self.devices.receive(accepted)
    }
}

extension Simulator {
    /// The devices in the order of their creation.
    public var devices: [VirtualDevice] { self.core.state.withLock { $0.devices.all } }

    /// What APNs stores for devices that are offline. A new rule applies from the next push on. It begins as
    /// `Configuration.offlineStorage`, also after a reset.
    public var offlineStorage: OfflineStorage {
        get { self.core.state.withLock { $0.devices.offlineStorage } }
        set { self.core.state.withLock { $0.devices.offlineStorage = newValue } }
    }

    /// Creates a device that receives the pushes to these tokens from now on. It is online.
    ///
    /// - Parameters:
    ///   - name: a name for people.
    ///   - tokens: its tokens. A token belongs to at most one device.
    /// - Returns: the device's id: `d1`, `d2`, …
    /// - Throws: `VirtualDeviceError` if another device owns a token, or a token is not valid.
    @discardableResult
    public func addDevice(
        _ name: String,
        tokens: [VirtualDevice.Token] = []
    ) throws(VirtualDeviceError) -> String {
        try self.updateDevices { devices, now throws(VirtualDeviceError) in
            try devices.create(name: name, tokens: tokens, now: now)
        }
    }

    /// Changes the devices: see the methods of `VirtualDevices`. This takes a device offline:
    ///
    /// ```swift
    /// let token = VirtualDevice.Token(token: "00fa11cf", kind: .app, topic: "com.example.app")
    /// let id = try simulator.addDevice("Anna", tokens: [token])
    /// try simulator.updateDevices { devices, now throws(VirtualDeviceError) in
    ///     try devices.setOnline(id, false, now: now)
    /// }
    /// ```
    ///
    /// - Parameter body: gets the devices and the time in milliseconds since 1970. It runs under the simulator's lock,
    ///   so it must not call the simulator.
    /// - Returns: the result of `body`.
    /// - Throws: the error of `body`.
    @discardableResult
    public func updateDevices<Value: Sendable>(
        _ body: (inout VirtualDevices, Int64) throws(VirtualDeviceError) -> Value
    ) throws(VirtualDeviceError) -> Value {
        let now = self.core.now.milliseconds
        let result = self.core.state.withLock { state -> Result<Value, VirtualDeviceError> in
            do throws(VirtualDeviceError) {
                return .success(try body(&state.devices, now))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    /// What a device holds now; nil if there is no such device.
    public func snapshot(ofDevice id: String) -> VirtualDevice.Snapshot? {
        let now = self.core.now.milliseconds
        return self.core.state.withLock { $0.devices[id]?.snapshot(now: now) }
    }

    /// How many pushes `snapshot(ofToken:)` considers for a token without a device.
    static let replayLimit = 1000

    /// What the device with this token holds now. If no device owns the token: what a device that has been online all
    /// the time would hold after the recorded pushes to it.
    public func snapshot(ofToken token: String) -> VirtualDevice.Snapshot {
        let token = token.lowercased()
        if let id = self.device(ofToken: token), let snapshot = self.snapshot(ofDevice: id) { return snapshot }
        let page = PushPage(limit: Self.replayLimit, newestFirst: true)
        let pushes = self.received(PushFilter(deviceToken: token), page).reversed()
        return VirtualDevices.replay(
            pushes.compactMap { AcceptedPush($0) },
            token: token,
            now: self.core.now.milliseconds
        )
    }

    /// The id of the device that owns a token; nil if none does.
    public func device(ofToken token: String) -> String? {
        self.core.state.withLock { $0.devices.owner(ofToken: token.lowercased()) }
    }
}

extension AcceptedPush {
    /// The push or broadcast of a record; nil unless the simulator accepted it.
    ///
    /// - Parameters:
    ///   - record: the record. Its payload must have been recorded.
    ///   - storage: the storage policy of a broadcast's channel.
    public init?(_ record: PushRecord, storage: MessageStoragePolicy = .noMessage) {
        guard record.isProcessed else { return nil }
        self.init(
            order: record.order,
            target: record.channelID.map { .channel($0, storage: storage) } ?? .token(record.deviceToken),
            topic: record.topic ?? "",
            pushType: record.pushType,
            priority: record.priority,
            expiration: record.expiration,
            collapseID: record.collapseID,
            payload: record.payload,
            time: record.milliseconds
        )
    }
}

extension PushRecord {
    /// What a developer should know about the push: what APNs accepts and a device does not show, what has no effect, and
    /// what the simulator tolerated. Empty unless the configuration records payloads.
    public var hints: [PushHint] {
        if self.payload.isEmpty { return [] }
        var hints = PushHint.hints(
            type: self.pushType,
            topic: self.topic ?? "",
            priority: self.priority,
            expiration: self.expiration,
            payload: self.payload,
            payloadBytes: self.payloadBytes,
            payloadLimit: self.payloadLimit,
            isBroadcast: self.channelID != nil,
            now: self.milliseconds
        )
        switch self.tokenNote {
        case .issueTime: hints.append(.issueTime)
        case .alphabet: hints.append(.tokenAlphabet)
        case nil: break
        }
        return hints
    }
}
