internal import APNSTransport

/// The fields of one request that APNs checks, as bytes inside the request's `FieldList`. Valid only inside the closure
/// that receives it.
struct RequestView {
    typealias Field = UnsafeBufferPointer<UInt8>

    var method: Field?
    var path: Field?
    var authorization: Field?
    var topic: Field?
    var pushType: Field?
    var id: Field?
    var expiration: Field?
    var priority: Field?
    var collapseID: Field?
    var channelID: Field?
    var requestID: Field?
    /// Whether one of the fields above occurred twice.
    var hasDuplicates = false

    static func with<Result>(_ fields: FieldList, _ body: (RequestView) -> Result) -> Result {
        var view = RequestView()
        return fields.withFields(each: { view.take($0, $1) }, then: { body(view) })
    }

    private mutating func take(_ name: Field, _ value: Field) {
        switch name.count {
        case 5:
            if Bytes.equal(name, ":path") { Self.set(&self.path, value, &self.hasDuplicates) }
        case 7:
            if Bytes.equal(name, "apns-id") {
                Self.set(&self.id, value, &self.hasDuplicates)
            } else if Bytes.equal(name, ":method") {
                Self.set(&self.method, value, &self.hasDuplicates)
            }
        case 10:
            if Bytes.equal(name, "apns-topic") { Self.set(&self.topic, value, &self.hasDuplicates) }
        case 13:
            if Bytes.equal(name, "authorization") {
                Self.set(&self.authorization, value, &self.hasDuplicates)
            } else if Bytes.equal(name, "apns-priority") {
                Self.set(&self.priority, value, &self.hasDuplicates)
            }
        case 14:
            if Bytes.equal(name, "apns-push-type") { Self.set(&self.pushType, value, &self.hasDuplicates) }
        case 15:
            if Bytes.equal(name, "apns-expiration") {
                Self.set(&self.expiration, value, &self.hasDuplicates)
            } else if Bytes.equal(name, "apns-channel-id") {
                Self.set(&self.channelID, value, &self.hasDuplicates)
            } else if Bytes.equal(name, "apns-request-id") {
                Self.set(&self.requestID, value, &self.hasDuplicates)
            }
        case 16:
            if Bytes.equal(name, "apns-collapse-id") { Self.set(&self.collapseID, value, &self.hasDuplicates) }
        default:
            break
        }
    }

    private static func set(_ field: inout Field?, _ value: Field, _ hasDuplicates: inout Bool) {
        if field != nil { hasDuplicates = true }
        field = value
    }

    /// The text after `/3/device/`; nil for another path.
    var deviceToken: Field? {
        guard let path, Bytes.hasPrefix(path, "/3/device/") else { return nil }
        return Field(rebasing: path[10...])
    }

    /// The device token in lower case; empty if there is none.
    var deviceTokenText: String {
        self.deviceToken.map { token in
            String(unsafeUninitializedCapacity: token.count) { buffer in
                for (index, byte) in token.enumerated() {
                    let isCapital = byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z")
                    buffer[index] = isCapital ? byte | 0x20 : byte
                }
                return token.count
            }
        } ?? ""
    }
}
