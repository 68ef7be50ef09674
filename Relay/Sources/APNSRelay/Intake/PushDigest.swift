import APNSModel
import Crypto
import PushQueue

/// The SHA-256 digest of a push as its caller submitted it. Two submissions with one idempotency key are the same push
/// if their digests are equal.
///
/// The digest covers only the values that the caller gave. Defaults depend on the time or on the relay's settings, so
/// they would change the digest of a push that is submitted again. The order of members, white space, and the case of
/// the device token do not matter.
struct PushDigest {
    private var hash = SHA256()

    /// - Parameters:
    ///   - push: the push.
    ///   - environment: the caller's value; nil if the caller gave none. The same applies to the parameters after it.
    init(
        _ push: NewPush,
        environment: String?,
        lane: String?,
        topic: String?,
        id: APNSID?,
        notBefore: QueueTime?,
        deadline: QueueTime?
    ) {
        self.add(push.route.app)
        self.add(environment)
        self.add(lane)
        self.add(push.token.hexadecimal)
        self.add(topic)
        self.add(id?.description)
        self.add(push.push.pushType.rawValue)
        self.add(push.push.priority.map { String($0.rawValue) })
        self.add(push.push.expiration.headerValue.map { String($0) })
        self.add(push.push.collapseID?.rawValue)
        self.add(notBefore.map { String($0.millisecondsSince1970) })
        self.add(deadline.map { String($0.millisecondsSince1970) })
        self.add(push.supersedes?.rawValue)
        self.add(push.resendsUnknown ? "1" : nil)
        push.push.payload.withUnsafeBytes { self.add(bytes: $0) }
        // Pushes without metadata have the digests of relays that knew none.
        if push.metadata != nil { self.add(push.metadata) }
    }

    var bytes: [UInt8] { Array(self.hash.finalize()) }

    private mutating func add(_ text: String?) {
        guard var text else { return self.hash.update(data: [UInt8](repeating: 0xFF, count: 8)) }
        text.withUTF8 { self.add(bytes: UnsafeRawBufferPointer($0)) }
    }

    /// Adds a part after its length, so that different lists of parts never produce the same bytes.
    private mutating func add(bytes: UnsafeRawBufferPointer) {
        withUnsafeBytes(of: UInt64(bytes.count).littleEndian) { self.hash.update(bufferPointer: $0) }
        self.hash.update(bufferPointer: bytes)
    }
}
