import APNSModel
import APNSTransport

/// The operations on channels, as requests to the management host.
enum ChannelOperation: Sendable, Hashable {
    case create(MessageStoragePolicy)
    case read(ChannelID)
    case delete(ChannelID)
    case list

    /// Whether the operation is idempotent, so that a call without a response may be resent (RFC 9110, section 9.2.2).
    /// A second `create` would create a second channel.
    var isRepeatable: Bool {
        if case .create = self { false } else { true }
    }
}

/// Converts broadcasts and channel calls to HTTP/2 requests. They are rare, so each one gets its own header block.
///
/// Source: Apple, "Sending broadcast push notification requests to APNs" and "Sending channel management requests to
/// APNs".
enum BroadcastRequests {
    /// The path is sent as a variable field. The request's own header block contains all others except `authorization`.
    static let variableNames = [":path"]

    static func broadcast(
        _ broadcast: PreparedPush,
        to channel: ChannelID,
        id: APNSID,
        authority: String,
        credential: HeaderBlock?
    ) -> HTTP2Request {
        self.request(
            "POST",
            "/4/broadcasts/apps/\(broadcast.bundleID)",
            authority: authority,
            fields: [
                .init("apns-push-type", PushType.liveactivity.rawValue),
                .init("apns-priority", String(broadcast.broadcastPriority.rawValue)),
                .init("apns-expiration", String(broadcast.broadcastExpiration), .never),
                // Ids repeat, but there may be thousands of them, so they must not fill the HPACK table.
                .init("apns-channel-id", channel.rawValue, .never),
                .init("apns-request-id", id.description, .never),
            ],
            credential: credential,
            body: broadcast.payload
        )
    }

    static func manage(
        _ operation: ChannelOperation,
        bundleID: String,
        id: APNSID,
        authority: String,
        credential: HeaderBlock?
    ) -> HTTP2Request {
        let method: String
        var resource = "channels"
        var fields: [HeaderBlock.Field] = []
        var body: [UInt8] = []
        switch operation {
        case .create(let storage):
            method = "POST"
            let text = #"{"message-storage-policy":\#(storage.rawValue),"push-type":"LiveActivity"}"#
            body = Array(text.utf8)
        case .read(let channel):
            method = "GET"
            fields.append(.init("apns-channel-id", channel.rawValue, .never))
        case .delete(let channel):
            method = "DELETE"
            fields.append(.init("apns-channel-id", channel.rawValue, .never))
        case .list:
            method = "GET"
            resource = "all-channels"
        }
        fields.append(.init("apns-request-id", id.description, .never))
        return self.request(
            method,
            "/1/apps/\(bundleID)/\(resource)",
            authority: authority,
            fields: fields,
            credential: credential,
            body: body
        )
    }

    private static func request(
        _ method: String,
        _ path: String,
        authority: String,
        fields: [HeaderBlock.Field],
        credential: HeaderBlock?,
        body: [UInt8]
    ) -> HTTP2Request {
        let start: [HeaderBlock.Field] = [
            .init(":method", method), .init(":scheme", "https"), .init(":authority", authority),
        ]
        let values = Array(path.utf8)
        var lengths = SIMD8<UInt16>(repeating: 0)
        lengths[0] = UInt16(clamping: values.count)
        return HTTP2Request(
            shared: HeaderBlock(start + fields),
            credential: credential,
            values: values,
            valueLengths: lengths,
            body: body
        )
    }
}
