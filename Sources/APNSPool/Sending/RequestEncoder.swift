import APNSModel
import APNSTransport
import NIOCore
import SupervisedPool

/// Encodes a prepared push as an HTTP/2 request.
enum RequestEncoder {
    /// The response fields of an accepted push that are kept: the `apns-id` if it differs from the one that was sent,
    /// and the `apns-unique-id` that the development environment adds. `echoed` is the index of `apns-id` in
    /// `variableNames`.
    static let responseFilter = ResponseFilter(echoed: 1, kept: ["apns-id", "apns-unique-id"])

    /// The fields whose values differ between pushes, in the order of `HTTP2Request.valueLengths`.
    static let variableNames = [":path", "apns-id", "apns-expiration", "apns-collapse-id"]

    static func request(
        _ push: PreparedPush,
        block: HeaderBlock,
        to token: DeviceToken,
        id: APNSID,
        credential: HeaderBlock?
    ) -> HTTP2Request {
        let (values, lengths) = self.withValues(of: push, to: token, id: id) { (Array($0), $1) }
        return HTTP2Request(
            shared: block,
            credential: credential,
            values: values,
            valueLengths: lengths,
            body: push.payload
        )
    }

    /// Calls `body` with the values of the variable fields, concatenated, and with the length of each in bytes.
    ///
    /// They are put together in temporary memory, usually on the stack, which is valid only during the call. An array
    /// would check its reference count and its capacity at each append.
    static func withValues<Result>(
        of push: PreparedPush,
        to token: DeviceToken,
        id: APNSID,
        _ body: (UnsafeBufferPointer<UInt8>, SIMD8<UInt16>) -> Result
    ) -> Result {
        let expiration = push.expiration.headerValue.map(String.init)
        let collapseID = push.collapseID?.rawValue
        let pathCount = self.pathPrefix.utf8CodeUnitCount + token.hexadecimal.utf8.count
        let count = pathCount + APNSID.textLength + (expiration?.utf8.count ?? 0) + (collapseID?.utf8.count ?? 0)
        return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: count) { buffer in
            guard var end = buffer.baseAddress else { return body(UnsafeBufferPointer(buffer), SIMD8()) }
            /// Writes the text at `end`, and returns its length in bytes.
            @discardableResult
            func append(_ text: String.UTF8View) -> UInt16 {
                let target = UnsafeMutableBufferPointer(start: end, count: text.count)
                end += target.initialize(fromContentsOf: text)
                return UInt16(clamping: target.count)
            }
            end.initialize(from: self.pathPrefix.utf8Start, count: self.pathPrefix.utf8CodeUnitCount)
            end += self.pathPrefix.utf8CodeUnitCount
            append(token.hexadecimal.utf8)
            id.write(into: end)
            end += APNSID.textLength
            var lengths = SIMD8<UInt16>()
            lengths[0] = UInt16(clamping: pathCount)
            lengths[1] = UInt16(clamping: APNSID.textLength)
            if let expiration { lengths[2] = append(expiration.utf8) }
            if let collapseID { lengths[3] = append(collapseID.utf8) }
            return body(UnsafeBufferPointer(buffer), lengths)
        }
    }

    private static let pathPrefix: StaticString = "/3/device/"
}

/// The header blocks of pushes. Each is encoded once for a combination of topic, push type and priority, and shared by
/// all pushes with that combination.
struct HeaderBlocks {
    private struct Key: Hashable {
        var topic: String
        var pushType: PushType
        var priority: Priority?
    }

    /// Far more combinations than any server uses. When the limit is reached, all blocks are discarded and encoded
    /// again.
    private static let limit = 1000

    private struct Entry {
        let key: Key
        let block: HeaderBlock

        /// The block if the push has this entry's headers; otherwise nil.
        func block(of push: PreparedPush) -> HeaderBlock? {
            let matches = push.matches(
                topic: self.key.topic,
                pushType: self.key.pushType,
                priority: self.key.priority
            )
            return matches ? self.block : nil
        }
    }

    private let authority: String
    private var all: [Key: HeaderBlock] = [:]
    /// Most pushes have the same headers as the previous one, and comparing is cheaper than hashing.
    private var last: Entry?

    /// - Parameter authority: the host, followed by the port unless the port is 443.
    init(authority: String) {
        self.authority = authority
    }

    /// The app of the last push: its topic without the suffix of its push type; nil before the first one.
    var lastBundleID: String? {
        guard let key = self.last?.key else { return nil }
        let suffix = key.pushType.topicSuffix
        return key.topic.hasSuffix(suffix) ? String(key.topic.dropLast(suffix.count)) : key.topic
    }

    /// The header block of all pushes with this topic, type and priority.
    mutating func block(for push: PreparedPush) -> HeaderBlock {
        if let block = self.last?.block(of: push) { return block }
        let key = Key(topic: push.topic, pushType: push.pushType, priority: push.priority)
        let block = self.all[key] ?? self.makeBlock(key)
        self.last = Entry(key: key, block: block)
        if self.all[key] == nil {
            if self.all.count >= Self.limit { self.all.removeAll(keepingCapacity: true) }
            self.all[key] = block
        }
        return block
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
}

extension RequestBatch {
    /// The typical size of a push's values in bytes: a path with a token of 32 bytes, an id and a date.
    fileprivate static var typicalValueBytes: Int { 128 }

    mutating func reserve(_ count: Int) {
        self.values.reserveCapacity(count * Self.typicalValueBytes)
        self.entries.reserveCapacity(count)
    }

    /// - Parameter isCommon: whether the push has the payload that the batch shares.
    mutating func append(
        _ push: PreparedPush,
        isCommon: Bool,
        to token: DeviceToken,
        id: APNSID,
        deadline: MonotonicInstant
    ) {
        let lengths = RequestEncoder.withValues(of: push, to: token, id: id) { bytes, valueLengths in
            self.values.append(contentsOf: bytes)
            return valueLengths
        }
        let body = isCommon ? [] : push.payload
        self.entries.append(Entry(valueLengths: lengths, body: body, deadline: NIODeadline(deadline)))
    }
}
