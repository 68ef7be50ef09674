internal import APNSModel

/// The virtual devices of a simulator, and which tokens and channels belong to them. Pure: times are parameters, in
/// milliseconds since 1970.
public struct VirtualDevices: Sendable {
    static let limit = 1_000
    static let nameLimit = 200

    private var devices: [String: VirtualDevice] = [:]
    /// The ids in the order of creation.
    private var order: [String] = []
    private var owners: [String: String] = [:]
    private var subscribers: [String: Set<String>] = [:]
    private var created = 0

    /// What APNs stores for devices that are offline, from the next push on. Default `latest`.
    public var offlineStorage = OfflineStorage.latest

    /// No devices.
    public init() {}

    /// Whether there are no devices.
    public var isEmpty: Bool { self.order.isEmpty }

    /// How many devices there are.
    public var count: Int { self.order.count }

    /// The devices in the order of creation.
    public var all: [VirtualDevice] { self.order.compactMap { self.devices[$0] } }

    /// The device with an id; nil if there is none.
    public subscript(id: String) -> VirtualDevice? { self.devices[id] }

    /// The id of the device that has a token; nil if none has it. The token must be in lower case.
    public func owner(ofToken token: String) -> String? { self.owners[token] }

    /// Whether a device listens to a channel.
    func hasSubscribers(_ channelID: String) -> Bool { self.subscribers[channelID] != nil }

    // MARK: Changes

    /// Creates a device that is online, and returns its id: `d1`, `d2`, ….
    ///
    /// - Throws: `limitReached`, or an error of `link`. Then there is no new device.
    public mutating func create(
        name: String,
        tokens: [VirtualDevice.Token],
        now: Int64
    ) throws(VirtualDeviceError) -> String {
        guard self.count < Self.limit else {
            throw VirtualDeviceError(.limitReached, "There are at most \(Self.limit) devices. Remove one first.")
        }
        var devices = self
        devices.created += 1
        let id = "d\(devices.created)"
        devices.devices[id] = VirtualDevice(id: id, name: try Self.checked(name: name))
        devices.order.append(id)
        for token in tokens { try devices.link(id, token, now: now) }
        self = devices
        return id
    }

    private static func checked(name: String) throws(VirtualDeviceError) -> String {
        guard name.utf8.count <= self.nameLimit else {
            throw VirtualDeviceError(.invalid, "A name has at most \(self.nameLimit) bytes.")
        }
        return name
    }

    /// Removes a device. No later device gets its id.
    ///
    /// - Throws: `deviceUnknown`.
    public mutating func remove(_ id: String) throws(VirtualDeviceError) {
        let device = try self.device(id)
        self.devices[id] = nil
        self.order.removeAll { $0 == id }
        for token in device.tokens { self.owners[token.token] = nil }
        for subscription in device.subscriptions { self.removeSubscriber(id, subscription.channelID) }
    }

    /// Changes the name of a device.
    ///
    /// - Throws: `deviceUnknown`, or `invalid` for a name of more than 200 bytes.
    public mutating func rename(_ id: String, to name: String) throws(VirtualDeviceError) {
        _ = try self.device(id)
        self.devices[id]?.name = try Self.checked(name: name)
    }

    /// Takes a device online or offline. A device that comes online receives its stored pushes.
    ///
    /// - Throws: `deviceUnknown`.
    public mutating func setOnline(_ id: String, _ isOnline: Bool, now: Int64) throws(VirtualDeviceError) {
        _ = try self.device(id)
        self.devices[id]?.setOnline(isOnline, now: now)
        self.addSubscribers(id)
    }

    /// Adds a token to a device; see `VirtualDevice.link(_:now:)`. A token belongs to at most one device.
    ///
    /// - Throws: `deviceUnknown`, `tokenTaken`, `invalid` or `limitReached`.
    public mutating func link(_ id: String, _ token: VirtualDevice.Token, now: Int64) throws(VirtualDeviceError) {
        var device = try self.device(id)
        let digits = token.token.lowercased()
        if let owner = self.owners[digits] {
            throw VirtualDeviceError(
                .tokenTaken,
                "The token already belongs to device \(owner). Remove it there first."
            )
        }
        try device.link(token, now: now)
        self.devices[id] = device
        self.owners[digits] = id
    }

    /// Removes a token from a device.
    ///
    /// - Throws: `deviceUnknown`, or `tokenUnknown` if the device does not have it.
    public mutating func unlink(_ id: String, token: String) throws(VirtualDeviceError) {
        _ = try self.device(id)
        let digits = token.lowercased()
        guard self.owners[digits] == id else {
            throw VirtualDeviceError(.tokenUnknown, "Device \(id) does not have this token.")
        }
        self.devices[id]?.unlink(digits)
        self.owners[digits] = nil
    }

    /// Adds a channel to a device; see `VirtualDevice.subscribe(_:now:)`.
    ///
    /// - Throws: `deviceUnknown`, `invalid` or `limitReached`.
    public mutating func subscribe(
        _ id: String,
        _ subscription: VirtualDevice.Subscription,
        now: Int64
    ) throws(VirtualDeviceError) {
        var device = try self.device(id)
        try device.subscribe(subscription, now: now)
        self.devices[id] = device
        self.addSubscribers(id)
    }

    /// Removes a channel from a device.
    ///
    /// - Throws: `deviceUnknown`, or `channelUnknown` if the device does not listen to it.
    public mutating func unsubscribe(_ id: String, channelID: String) throws(VirtualDeviceError) {
        guard try self.device(id).subscription(channelID) != nil else {
            throw VirtualDeviceError(.channelUnknown, "Device \(id) does not listen to this channel.")
        }
        self.devices[id]?.unsubscribe(channelID)
        self.removeSubscriber(id, channelID)
    }

    /// Adds keys for Web Push to a device; see `VirtualDevice.add(_:)`.
    ///
    /// - Throws: `deviceUnknown`, `invalid` or `limitReached`.
    public mutating func add(_ id: String, _ keys: VirtualDevice.WebPushKeys) throws(VirtualDeviceError) {
        var device = try self.device(id)
        try device.add(keys)
        self.devices[id] = device
    }

    private func device(_ id: String) throws(VirtualDeviceError) -> VirtualDevice {
        guard let device = self.devices[id] else {
            throw VirtualDeviceError(.deviceUnknown, "There is no device \(id.prefix(100)).")
        }
        return device
    }

    private mutating func addSubscribers(_ id: String) {
        for subscription in self.devices[id]?.subscriptions ?? [] {
            self.subscribers[subscription.channelID, default: []].insert(id)
        }
    }

    private mutating func removeSubscriber(_ id: String, _ channelID: String) {
        self.subscribers[channelID]?.remove(id)
        if self.subscribers[channelID]?.isEmpty == true { self.subscribers[channelID] = nil }
    }

    // MARK: Receiving

    /// Passes a push to the device that has its token, or a broadcast to the devices that listen to its channel. Does
    /// nothing if there is none.
    public mutating func receive(_ push: AcceptedPush) {
        switch push.target {
        case .token(let token):
            guard let id = self.owners[token] else { return }
            let channels = self.devices[id]?.subscriptions.count
            self.devices[id]?.receive(push, storing: self.offlineStorage)
            // A push-to-start may subscribe the device to a channel.
            if self.devices[id]?.subscriptions.count != channels { self.addSubscribers(id) }
        case .channel(let channelID, _):
            for id in self.subscribers[channelID] ?? [] {
                self.devices[id]?.receive(push, storing: self.offlineStorage)
            }
        }
    }

    /// What an online device would hold after these pushes if it had only this token. Used for tokens that no device
    /// owns. The first push determines the kind of the token. Pushes to other tokens are ignored.
    public static func replay(_ pushes: [AcceptedPush], token: String, now: Int64) -> VirtualDevice.Snapshot {
        let digits = token.lowercased()
        var device = VirtualDevice(id: "replay", name: "")
        for push in pushes where push.target == .token(digits) {
            if device.tokens.isEmpty {
                let isActivity = (push.pushType ?? AcceptedPush.type(ofTopic: push.topic)) == .liveactivity
                let isStart = (try? DevicePayload(push.payload))?.text("event") == LiveActivityEvent.start.rawValue
                let kind: VirtualDevice.TokenKind = isActivity ? (isStart ? .pushToStart : .activity) : .app
                let bundleID = push.bundleID
                // A token that is not hexadecimal cannot be linked, and APNs accepts no push to it.
                try? device.link(VirtualDevice.Token(token: digits, kind: kind, topic: bundleID), now: push.time)
            }
            device.receive(push)
        }
        return device.snapshot(now: now)
    }
}

/// Why a change to the virtual devices is impossible.
public struct VirtualDeviceError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of an error. Open: later versions may add values.
    public struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        /// The name of the code, as the control API sends it.
        public let rawValue: String

        /// A code with this name.
        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// There is no device with this id.
        public static let deviceUnknown = Code(rawValue: "device-unknown")
        /// The token belongs to a device already.
        public static let tokenTaken = Code(rawValue: "token-taken")
        /// The device does not have this token.
        public static let tokenUnknown = Code(rawValue: "token-unknown")
        /// The device does not listen to this channel.
        public static let channelUnknown = Code(rawValue: "channel-unknown")
        /// A value is not valid.
        public static let invalid = Code(rawValue: "invalid")
        /// There are too many devices, tokens or channels.
        public static let limitReached = Code(rawValue: "limit-reached")
    }

    /// The kind of the error.
    public let code: Code
    /// What is wrong, and what to do.
    public let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { self.message }
}
