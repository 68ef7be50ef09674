import APNSBasics

/// The address of one app on one device, which the system assigns to the app.
///
/// A token is opaque. Its length is not fixed (32 bytes are common, Live Activity tokens are longer), so the checks
/// cover only the characters that a request path allows. Upper case becomes lower case. Coded as the string of its
/// digits.
///
/// ```swift
/// let token = try DeviceToken("00FA11CE")  // throws a ValidationError for text that is not hexadecimal
/// print(token.hexadecimal)  // 00fa11ce
/// ```
public struct DeviceToken: Sendable, Hashable, Codable, CustomStringConvertible, CustomDebugStringConvertible {
    /// The most digits accepted. APNs accepts header lists of at most 8,000 bytes, and the token is part of the path.
    public static let maximumDigits = 1_000

    /// The lower-case hexadecimal digits, two for each byte.
    public let hexadecimal: String

    /// Takes hexadecimal digits in either case, without blanks or brackets.
    ///
    /// - Throws: `deviceTokenEmpty`, `deviceTokenTooLong`, `deviceTokenNotHexadecimal` or `deviceTokenOddLength`.
    public init(_ string: String) throws(ValidationError) {
        let count = string.utf8.count
        guard count > 0 else {
            throw ValidationError(code: .deviceTokenEmpty, field: "device token")
        }
        guard count <= Self.maximumDigits else {
            throw ValidationError(
                code: .deviceTokenTooLong,
                field: "device token",
                limit: Self.maximumDigits,
                actual: count
            )
        }
        switch Self.check(string) {
        case .lowerCase: self.hexadecimal = string
        case .mixedCase: self.hexadecimal = string.lowercased()
        case .notHexadecimal: throw Self.error(.deviceTokenNotHexadecimal, string)
        }
        guard count.isMultiple(of: 2) else {
            throw Self.error(.deviceTokenOddLength, string)
        }
    }

    /// Takes hexadecimal digits, as `init(_:)` for a `String` does.
    public init(_ string: some StringProtocol) throws(ValidationError) {
        try self.init(String(string))
    }

    private enum Spelling {
        case lowerCase
        case mixedCase
        case notHexadecimal
    }

    private static func check(_ string: String) -> Spelling {
        let found = string.utf8.withContiguousStorageIfAvailable(self.check(units:))
        return found ?? Array(string.utf8).withUnsafeBufferPointer(self.check(units:))
    }

    private static func check(units: UnsafeBufferPointer<UInt8>) -> Spelling {
        // Eight bytes at a time, because this runs for each device. In each sum, bit 7 of a byte is set if the byte is
        // at least 0x80 minus the number that was added to it.
        let high: UInt64 = 0x8080_8080_8080_8080
        var faults: UInt64 = 0
        var upper: UInt64 = 0
        var position = 0
        let bytes = UnsafeRawBufferPointer(units)
        while position &+ 8 <= units.count {
            let word = bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self)
            let seven = word & ~high
            // 0 to 9 for a digit; 1 to 6 for a letter from A to F in either case.
            let digit = seven ^ 0x3030_3030_3030_3030
            let letter = (seven | 0x2020_2020_2020_2020) ^ 0x6060_6060_6060_6060
            let isNoDigit = digit &+ 0x7676_7676_7676_7676
            let isLetter = (letter &+ 0x7F7F_7F7F_7F7F_7F7F) & ~(letter &+ 0x7979_7979_7979_7979)
            faults |= word | (isNoDigit & ~isLetter)
            upper |= isLetter & (~word &<< 2)
            position &+= 8
        }
        var isValid = faults & high == 0
        var hasUpperCase = upper & high != 0
        for unit in units[position...] {
            isValid = isValid && Hexadecimal.value(unit) != nil
            hasUpperCase = hasUpperCase || (0x41...0x46).contains(unit)
        }
        guard isValid else { return .notHexadecimal }
        return hasUpperCase ? .mixedCase : .lowerCase
    }

    /// Takes the bytes that `didRegisterForRemoteNotificationsWithDeviceToken` passes to the app.
    ///
    /// - Throws: `deviceTokenEmpty` or `deviceTokenTooLong` (more than 500 bytes).
    public init(bytes: some Sequence<UInt8>) throws(ValidationError) {
        var digits: [UInt8] = []
        digits.reserveCapacity(bytes.underestimatedCount < 64 ? bytes.underestimatedCount * 2 : 128)
        for byte in bytes {
            guard digits.count < Self.maximumDigits else {
                throw ValidationError(
                    code: .deviceTokenTooLong,
                    field: "device token",
                    limit: Self.maximumDigits,
                    actual: digits.count + 2
                )
            }
            digits.append(Hexadecimal.digit(byte >> 4))
            digits.append(Hexadecimal.digit(byte & 0xF))
        }
        guard !digits.isEmpty else {
            throw ValidationError(code: .deviceTokenEmpty, field: "device token")
        }
        self.hexadecimal = String(decoding: digits, as: UTF8.self)
    }

    /// The first four and the last two digits, for logs: enough to identify a device, too few to send to it.
    public var shortened: String {
        Self.shortened(self.hexadecimal)
    }

    /// Returns `shortened`, because logs should not contain whole device tokens. `hexadecimal` has all digits.
    public var description: String { self.shortened }

    public var debugDescription: String { self.shortened }

    public init(from decoder: any Decoder) throws {
        try self.init(try decoder.singleValueContainer().decode(String.self))
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self.hexadecimal)
    }

    private static func shortened(_ text: some StringProtocol) -> String {
        guard text.utf8.count > 8 else {
            return "\(text.prefix(2))…"
        }
        return "\(text.prefix(4))…\(text.suffix(2))"
    }

    private static func error(_ code: ValidationError.Code, _ text: some StringProtocol) -> ValidationError {
        ValidationError(
            code: code,
            field: "device token",
            value: ValidationError.shortened(String(text.prefix(4))) + "…" + self.remedy(text)
        )
    }

    /// What the text is instead of a device token, and what to do; empty for any other text.
    private static func remedy(_ text: some StringProtocol) -> String {
        if self.isBase64(text) { return ", which is base64: decode it, and write its bytes as such digits" }
        if text.utf8.contains(0) { return ", which is in UTF-16: save it as UTF-8 or ASCII" }
        if text.hasPrefix("{length") {
            return ", which is the description of a Data value: let the app send the bytes as such digits"
        }
        if text.contains(":APA91b") {
            return ", which is a token of Firebase: use the device token that iOS gives to the app"
        }
        return ""
    }

    /// Whether this is a token's 32 bytes or more in base64, and not hexadecimal digits with a wrong character.
    private static func isBase64(_ text: some StringProtocol) -> Bool {
        let others = text.utf8.count { Hexadecimal.value($0) == nil && $0 != UInt8(ascii: "=") }
        guard others > 4, text.utf8.count.isMultiple(of: 4), let bytes = Base64.decode(text.utf8) else { return false }
        return bytes.count >= 32
    }
}
