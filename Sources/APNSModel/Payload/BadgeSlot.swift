extension PreparedPush {
    /// What is known of the badge's place in a payload.
    enum BadgePlace: Sendable {
        case at(BadgeSlot)
        /// The payload has no `aps`.
        case nowhere
        /// The payload came as bytes.
        case unsearched

        func slot(in payload: [UInt8]) -> BadgeSlot? {
            switch self {
            case .at(let slot): slot
            case .nowhere: nil
            case .unsearched: JSONParser.badgeSlot(payload)
            }
        }
    }
}

/// Where the number of `aps.badge` stands in a payload, or where key and number can be put.
struct BadgeSlot: Sendable, Equatable {
    /// The bytes of the value; empty if there is none, and then it lies behind the opening brace of `aps`.
    var range: Range<Int>

    private static let key: StaticString = "\"badge\":"

    /// The payload with this number, and the number's place in it.
    func patched(_ payload: [UInt8], _ number: Int) -> ([UInt8], BadgeSlot) {
        var digits = JSONByteWriter(capacity: 32)
        var numberStart = 0
        let isNew = range.isEmpty
        if isNew {
            digits.literal(Self.key)
            numberStart = digits.count
        }
        digits.integer(Int64(number))
        let numberEnd = digits.count
        if isNew, !endsObject(payload) {
            digits.byte(JSONByte.comma)
        }
        let text = digits.bytes()
        let count = payload.count - range.count + text.count
        let patched = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            payload.withUnsafeBufferPointer { payload in
                func put(_ bytes: UnsafeBufferPointer<UInt8>, at position: Int) {
                    let target = UnsafeMutableBufferPointer(rebasing: buffer[position..<position + bytes.count])
                    _ = target.initialize(fromContentsOf: bytes)
                }
                put(UnsafeBufferPointer(rebasing: payload[..<range.lowerBound]), at: 0)
                text.withUnsafeBufferPointer { put($0, at: range.lowerBound) }
                put(UnsafeBufferPointer(rebasing: payload[range.upperBound...]), at: range.lowerBound + text.count)
            }
            initialized = count
        }
        let start = range.lowerBound
        return (patched, BadgeSlot(range: start + numberStart..<start + numberEnd))
    }

    /// Whether only blanks stand between the place and the end of `aps`.
    private func endsObject(_ payload: [UInt8]) -> Bool {
        for byte in payload[range.upperBound...] where ![0x20, 0x09, 0x0A, 0x0D].contains(byte) {
            return byte == JSONByte.closeObject
        }
        return true
    }
}
