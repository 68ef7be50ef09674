import APNSModel
import HTTP2Wire
import Synchronization

/// Turns a prepared push into what the wire needs. Header blocks are made once for each combination of topic, push
/// type and priority, and shared by all pushes that have it.
final class RequestEncoder: Sendable {
    /// The fields whose values differ from push to push, in the order of `HTTP2Request.valueLengths`.
    static let variableNames = [":path", "apns-id", "apns-expiration", "apns-collapse-id"]

    private struct Key: Hashable {
        var topic: String
        var pushType: PushType
        var priority: Priority?
    }

    /// Far more than any server has; beyond it the blocks are made anew.
    private static let blockLimit = 1000

    private let authority: String
    private let blocks = Mutex<[Key: HeaderBlock]>([:])

    /// - Parameter authority: the host, with its port unless that is 443.
    init(authority: String) {
        self.authority = authority
    }

    /// The fields that all pushes with these headers share.
    func block(for push: PreparedPush) -> HeaderBlock {
        let key = Key(topic: push.topic, pushType: push.pushType, priority: push.priority)
        return self.blocks.withLock { blocks in
            if let block = blocks[key] { return block }
            var fields: [HeaderBlock.Field] = [
                .init(":method", "POST"),
                .init(":scheme", "https"),
                .init(":authority", self.authority),
                .init("apns-topic", push.topic),
                .init("apns-push-type", push.pushType.rawValue),
            ]
            if let priority = push.priority { fields.append(.init("apns-priority", String(priority.rawValue))) }
            let block = HeaderBlock(fields)
            if blocks.count >= Self.blockLimit { blocks.removeAll(keepingCapacity: true) }
            blocks[key] = block
            return block
        }
    }

    func request(
        _ push: PreparedPush,
        block: HeaderBlock,
        to token: DeviceToken,
        id: APNSID,
        credential: HeaderBlock?
    ) -> HTTP2Request {
        let expiration = push.expiration.headerValue.map { String($0) } ?? ""
        let collapseID = push.collapseID?.rawValue ?? ""
        let prefix = Self.pathPrefix
        let device = token.hexadecimal.utf8
        let pathCount = prefix.utf8CodeUnitCount + device.count
        let idCount = APNSID.textLength
        let count = pathCount + idCount + expiration.utf8.count + collapseID.utf8.count
        let values = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            var position = 0
            func write(_ bytes: some Collection<UInt8>) {
                let end = UnsafeMutableBufferPointer(rebasing: buffer[position...]).update(fromContentsOf: bytes)
                position += end
            }
            write(UnsafeBufferPointer(start: prefix.utf8Start, count: prefix.utf8CodeUnitCount))
            write(device)
            if let base = buffer.baseAddress { id.write(into: base + position) }
            position += idCount
            write(expiration.utf8)
            write(collapseID.utf8)
            initialized = position
        }
        return HTTP2Request(
            shared: block,
            credential: credential,
            values: values,
            valueLengths: [
                UInt16(clamping: pathCount), UInt16(clamping: idCount), UInt16(clamping: expiration.utf8.count),
                UInt16(clamping: collapseID.utf8.count), 0, 0, 0, 0,
            ],
            body: push.payload
        )
    }

    private static let pathPrefix: StaticString = "/3/device/"
}
