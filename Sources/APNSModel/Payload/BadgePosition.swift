extension PreparedPush {
    /// Where the badge is in a payload, as far as known.
    enum BadgeLookup: Sendable {
        case at(BadgePosition)
        /// The payload has no `aps`.
        case nowhere
        /// The payload was given as bytes and has not been searched.
        case unsearched

        func position(in payload: [UInt8]) -> BadgePosition? {
            switch self {
            case .at(let position): position
            case .nowhere: nil
            case .unsearched: JSONParser.badgePosition(payload)
            }
        }
    }
}

/// The position of the number of `aps.badge` in a payload, or the position at which key and number can be inserted.
struct BadgePosition: Sendable, Equatable {
    /// The bytes of the number. Empty if there is none; then the position is after the opening brace of `aps`.
    var range: Range<Int>

    private static let key: StaticString = "\"badge\":"

    /// Returns the payload with this number, and the number's new position. One allocation, because this runs for each
    /// device.
    func patched(_ payload: [UInt8], _ number: Int) -> ([UInt8], BadgePosition) {
        let key = self.range.isEmpty ? Self.key.utf8CodeUnitCount : 0
        let comma = self.range.isEmpty && !self.endsObject(payload) ? 1 : 0
        let numberStart = self.range.lowerBound + key
        let numberEnd = numberStart + Self.length(number)
        let rest = payload.count - self.range.upperBound
        let count = numberEnd + comma + rest
        let patched = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            guard let target = buffer.baseAddress else { return }
            payload.withUnsafeBufferPointer { payload in
                guard let source = payload.baseAddress else { return }
                target.initialize(from: source, count: self.range.lowerBound)
                (target + numberEnd + comma).initialize(from: source + self.range.upperBound, count: rest)
            }
            (target + self.range.lowerBound).initialize(from: Self.key.utf8Start, count: key)
            var position = numberEnd
            var magnitude = number.magnitude
            repeat {
                position -= 1
                (target + position).initialize(to: 0x30 + UInt8(truncatingIfNeeded: magnitude % 10))
                magnitude /= 10
            } while magnitude > 0
            if number < 0 { (target + numberStart).initialize(to: 0x2D) }
            if comma > 0 { (target + numberEnd).initialize(to: JSONByte.comma) }
            initialized = count
        }
        return (patched, BadgePosition(range: numberStart..<numberEnd))
    }

    /// The number of characters of a number.
    private static func length(_ number: Int) -> Int {
        var length = number < 0 ? 2 : 1
        var rest = number.magnitude / 10
        while rest > 0 {
            length += 1
            rest /= 10
        }
        return length
    }

    /// Whether only blanks are between the position and the end of `aps`.
    private func endsObject(_ payload: [UInt8]) -> Bool {
        for byte in payload[self.range.upperBound...] where ![0x20, 0x09, 0x0A, 0x0D].contains(byte) {
            return byte == JSONByte.closeObject
        }
        return true
    }
}
