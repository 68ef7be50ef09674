import APNSModel

@testable import APNSDevices

/// A device with one token of each kind and one channel, and pushes to them. Times are in seconds after `start`.
struct DeviceFixture {
    static let start: Int64 = 1_800_000_000
    static let app = "aa"
    static let activity = "bb"
    static let pushToStart = "cc"
    static let channel = "channel"
    static let topic = "com.example.app"

    var device = VirtualDevice(id: "d1", name: "Phone")
    var storage = OfflineStorage.latest
    private var order = 0

    init(_ kinds: VirtualDevice.TokenKind...) throws(VirtualDeviceError) {
        for kind in kinds.isEmpty ? [.app] : kinds {
            let token =
                switch kind {
                case .app: Self.app
                case .activity: Self.activity
                case .pushToStart: Self.pushToStart
                }
            try self.device.link(
                VirtualDevice.Token(token: token, kind: kind, topic: Self.topic),
                now: Self.start * 1000
            )
        }
    }

    /// Sends a push and returns its order.
    @discardableResult
    mutating func push(
        _ payload: String,
        at seconds: Int64 = 0,
        to target: AcceptedPush.Target = .token(Self.app),
        topic: String = Self.topic,
        type: PushType? = .alert,
        priority: Priority? = nil,
        expiration: Int64? = nil,
        collapseID: String? = nil
    ) -> Int {
        self.order += 1
        self.device.receive(
            AcceptedPush(
                order: self.order,
                target: target,
                topic: topic,
                pushType: type,
                priority: priority,
                expiration: expiration,
                collapseID: collapseID,
                payload: Array(payload.utf8),
                time: (Self.start + seconds) * 1000
            ),
            storing: self.storage
        )
        return self.order
    }

    /// Sends an event to the activity's token, to the push-to-start token or to the channel.
    @discardableResult
    mutating func event(
        _ event: String,
        at seconds: Int64,
        timestamp: Int64? = nil,
        state: Int = 0,
        more: String = "",
        to target: AcceptedPush.Target? = nil
    ) -> Int {
        var payload = #"{"aps":{"event":"\#(event)","timestamp":\#(Self.start + (timestamp ?? seconds))"#
        payload += #","content-state":{"n":\#(state)}"#
        if event == "start" {
            payload += #","attributes-type":"Order","attributes":{"id":1},"alert":{"title":"Started"}"#
        }
        let token = AcceptedPush.Target.token(event == "start" ? Self.pushToStart : Self.activity)
        var topic = "\(Self.topic).push-type.liveactivity"
        if case .channel = target { topic = Self.topic }
        return self.push(payload + more + "}}", at: seconds, to: target ?? token, topic: topic, type: .liveactivity)
    }

    mutating func setOnline(_ isOnline: Bool, at seconds: Int64 = 0) {
        self.device.setOnline(isOnline, now: (Self.start + seconds) * 1000)
    }

    func snapshot(at seconds: Int64 = 0) -> VirtualDevice.Snapshot {
        self.device.snapshot(now: (Self.start + seconds) * 1000)
    }
}

extension VirtualDevice.Snapshot {
    var notifications: [VirtualDevice.Notification] { self.apps.flatMap(\.notifications) }

    /// The rules of the undelivered pushes, by order.
    var rules: [Int: String] { Dictionary(self.undelivered.map { ($0.order, $0.rule) }) { $1 } }

    func has(_ note: DeviceNote) -> Bool { self.notes.contains { $0.message == note.rawValue } }
}
