public import APNSModel

/// A request of a homeserver: `POST /_matrix/push/v1/notify` of Matrix' Push Gateway API.
///
/// ```swift
/// let notification = try MatrixNotification(body)
/// for device in notification.devices {
///     guard let push = try notification.push(for: device, topic: "com.example.fern") else { continue }
///     send(push, to: try device.token())
/// }
/// ```
public struct MatrixNotification: Sendable, Hashable {
    /// The most devices of one request. Homeservers send one.
    public static let maxDevices = 100

    /// The event, by which a repeated request is recognized; nil for a notification that only has counts.
    public var eventID: String? { self.content.eventID }
    /// Whether the device should get it at once.
    public var isUrgent: Bool { self.content.priority != "low" }
    /// The devices that should get it.
    public let devices: [MatrixDevice]

    let content: Content

    /// Reads a request.
    ///
    /// - Parameter body: its body.
    /// - Throws: `MatrixPushError.Code.malformed`.
    public init(_ body: [UInt8]) throws(MatrixPushError) {
        guard let json = MatrixJSON(body) else { throw MatrixPushError(.malformed, "Expected a JSON object.") }
        let notification = try json.required("notification", \.object)
        let devices = try notification.required("devices", \.elements)
        guard devices.count <= Self.maxDevices else {
            throw MatrixPushError(.malformed, "Expected at most \(Self.maxDevices) devices.")
        }
        self.content = Content(notification)
        var read: [MatrixDevice] = []
        for device in devices { read.append(try MatrixDevice(device)) }
        self.devices = read
    }

    /// What the notification tells.
    struct Content: Sendable, Hashable {
        var eventID: String?
        var roomID: String?
        var type: String?
        var sender: String?
        var senderDisplayName: String?
        var roomName: String?
        var roomAlias: String?
        var isForTarget: Bool
        /// Not in the specification, but homeservers send it for events of the type `m.room.member`.
        var membership: String?
        var priority: String?
        /// The content of the event.
        var event: MatrixJSON?
        var unread: Int64?
        var missedCalls: Int64?

        /// A member of another type counts as missing: it comes from other users, and an error would stop all pushes.
        init(_ json: MatrixJSON) {
            self.eventID = try? json.optional("event_id", \.text)
            self.roomID = try? json.optional("room_id", \.text)
            self.type = try? json.optional("type", \.text)
            self.sender = try? json.optional("sender", \.text)
            self.senderDisplayName = try? json.optional("sender_display_name", \.text)
            self.roomName = try? json.optional("room_name", \.text)
            self.roomAlias = try? json.optional("room_alias", \.text)
            self.isForTarget = (try? json.optional("user_is_target", \.bool)) ?? false
            self.membership = try? json.optional("membership", \.text)
            self.priority = try? json.optional("prio", \.text)
            self.event = try? json.optional("content", \.object)
            let counts = try? json.optional("counts", \.object)
            self.unread = try? counts?.optional("unread", \.integer)
            self.missedCalls = try? counts?.optional("missed_calls", \.integer)
        }
    }

    /// Prepares the push for a device.
    ///
    /// - Parameters:
    ///   - device: one of ``devices``.
    ///   - topic: the app's bundle ID.
    /// - Returns: the push; nil if there is nothing to tell the device.
    /// - Throws: `MatrixPushError.Code.payloadTooLarge`.
    public func push(for device: MatrixDevice, topic: String) throws(MatrixPushError) -> PreparedPush? {
        guard let payload = MatrixPayload(self.content, device) else { return nil }
        let aps = payload.root["aps"]?.members ?? [:]
        let isSilent = ["alert", "badge", "sound"].allSatisfy { aps[$0] == nil }
        let isBackground = isSilent && aps["content-available"] == .integer(1)
        do throws(ValidationError) {
            return try PreparedPush(
                topic: topic,
                pushType: isBackground ? .background : .alert,
                payload: payload.fitting,
                priority: isBackground || !self.isUrgent ? .conserve : .immediate
            )
        } catch {
            throw MatrixPushError(
                .payloadTooLarge,
                "The payload is too large for a notification, also without its texts. Make default_payload smaller."
            )
        }
    }
}
