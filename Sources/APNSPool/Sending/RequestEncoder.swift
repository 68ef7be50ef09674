import APNSModel
import HTTP2Wire
import NIOCore
import SupervisedPool
import Synchronization

/// Turns a prepared push into what the wire needs. Header blocks are made once for each combination of topic, push
/// type and priority, and shared by all pushes that have it.
final class RequestEncoder: Sendable {
    /// Of an accepted push's answer only the id is worth a look, if it is another than the one that was sent, and the
    /// unique id that development gives.
    static let responseFilter = ResponseFilter(echoed: 1, kept: ["apns-id", "apns-unique-id"])

    /// The fields whose values differ from push to push, in the order of `HTTP2Request.valueLengths`.
    static let variableNames = [":path", "apns-id", "apns-expiration", "apns-collapse-id"]

    private struct Key: Hashable {
        var topic: String
        var pushType: PushType
        var priority: Priority?
    }

    /// Far more than any server has; beyond it the blocks are made anew.
    private static let blockLimit = 1000

    private struct Blocks {
        var all: [Key: HeaderBlock] = [:]
        /// Most pushes have the headers of the one before: to compare costs less than to hash.
        var last: (key: Key, block: HeaderBlock)?
    }

    private let authority: String
    private let blocks = Mutex(Blocks())

    /// - Parameter authority: the host, with its port unless that is 443.
    init(authority: String) {
        self.authority = authority
    }

    /// The fields that all pushes with these headers share.
    func block(for push: PreparedPush) -> HeaderBlock {
        let key = Key(topic: push.topic, pushType: push.pushType, priority: push.priority)
        return self.blocks.withLock { blocks in
            if let last = blocks.last, last.key == key { return last.block }
            let block = blocks.all[key] ?? self.makeBlock(key)
            blocks.last = (key, block)
            if blocks.all[key] == nil {
                if blocks.all.count >= Self.blockLimit { blocks.all.removeAll(keepingCapacity: true) }
                blocks.all[key] = block
            }
            return block
        }
    }

    private func makeBlock(_ key: Key) -> HeaderBlock {
        var fields: [HeaderBlock.Field] = [
            .init(":method", "POST"),
            .init(":scheme", "https"),
            .init(":authority", self.authority),
            .init("apns-topic", key.topic),
            .init("apns-push-type", key.pushType.rawValue),
        ]
        if let priority = key.priority { fields.append(.init("apns-priority", String(priority.rawValue))) }
        return HeaderBlock(fields)
    }

    func request(
        _ push: PreparedPush,
        block: HeaderBlock,
        to token: DeviceToken,
        id: APNSID,
        credential: HeaderBlock?
    ) -> HTTP2Request {
        var values: [UInt8] = []
        let lengths = Self.append(push, to: token, id: id, into: &values)
        return HTTP2Request(
            shared: block,
            credential: credential,
            values: values,
            valueLengths: lengths,
            body: push.payload
        )
    }

    /// Writes the values of the variable fields.
    ///
    /// - Returns: how many bytes each has.
    static func append(
        _ push: PreparedPush,
        to token: DeviceToken,
        id: APNSID,
        into values: inout [UInt8]
    ) -> SIMD8<UInt16> {
        let prefix = self.pathPrefix
        let start = values.count
        values.append(contentsOf: UnsafeBufferPointer(start: prefix.utf8Start, count: prefix.utf8CodeUnitCount))
        values.append(contentsOf: token.hexadecimal.utf8)
        let pathCount = values.count - start
        values.append(contentsOf: repeatElement(0, count: APNSID.textLength))
        values.withUnsafeMutableBufferPointer { buffer in
            if let base = buffer.baseAddress { id.write(into: base + start + pathCount) }
        }
        var lengths = SIMD8<UInt16>()
        lengths[0] = UInt16(clamping: pathCount)
        lengths[1] = UInt16(clamping: APNSID.textLength)
        if let expiration = push.expiration.headerValue {
            let text = String(expiration)
            values.append(contentsOf: text.utf8)
            lengths[2] = UInt16(clamping: text.utf8.count)
        }
        if let collapseID = push.collapseID?.rawValue {
            values.append(contentsOf: collapseID.utf8)
            lengths[3] = UInt16(clamping: collapseID.utf8.count)
        }
        return lengths
    }

    private static let pathPrefix: StaticString = "/3/device/"
}

extension RequestBatch {
    /// Bytes of an ordinary push's values: path with a token of 32 bytes, id, a date.
    private static var usualValueCount: Int { 128 }

    mutating func reserve(_ count: Int) {
        self.values.reserveCapacity(count * Self.usualValueCount)
        self.entries.reserveCapacity(count)
    }

    /// - Parameter isCommon: whether its payload is the batch's.
    mutating func append(
        _ push: PreparedPush,
        isCommon: Bool,
        to token: DeviceToken,
        id: APNSID,
        deadline: MonotonicInstant
    ) {
        let lengths = RequestEncoder.append(push, to: token, id: id, into: &self.values)
        let body = isCommon ? [] : push.payload
        self.entries.append(Entry(valueLengths: lengths, body: body, deadline: NIODeadline(deadline)))
    }
}
