#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The kind of a setting's value: its format and its limits. Pure.
@_spi(Relay) public enum SettingKind: Sendable, Hashable {
    case string
    /// A host name or an address.
    case host
    case path
    /// PEM text. Its line breaks may be missing, as in environment variables.
    case pem
    /// Bytes in base64.
    case base64
    /// `https://HOST:PORT`
    case endpoint
    /// `http://USER:PASSWORD@HOST:PORT`
    case proxy
    /// A whole number, or `off` if that is allowed.
    case integer(ClosedRange<Int>, offIsAllowed: Bool = false)
    case boolean
    /// A duration, or `never` if that is allowed.
    case duration(ClosedRange<Duration>, neverIsAllowed: Bool = false)
    /// A number of bytes.
    case size(ClosedRange<Int>)
    /// One of these words.
    case choice([String])
    /// Texts with commas between them; in a file, also an array.
    case list

    /// A parsed value that is within its limits.
    @_spi(Relay) public enum Value: Sendable, Hashable {
        case text(String)
        case texts([String])
        case bytes([UInt8])
        /// Nil for `off`.
        case integer(Int?)
        case boolean(Bool)
        /// Nil for `never`.
        case duration(Duration?)
        case server(ServerURL)
    }

    /// The reason why a text is not a value of the kind.
    struct Mistake: Error, Hashable {
        var code: APNSConfigurationError.Code
        /// The expected format; nil if the value has the right format but is outside its limits.
        var expected: String?
    }

    /// The kind's name in the documentation, such as `whole number`, `time` or `bytes`.
    package var name: String {
        switch self {
        case .string: "text"
        case .host: "host name or address"
        case .path: "path"
        case .pem: "PEM text"
        case .base64: "bytes in base64"
        case .endpoint: "`\(ServerURL.endpointForm)`"
        case .proxy: "`\(ServerURL.proxyForm)`"
        case .integer(_, let offIsAllowed): offIsAllowed ? "whole number or `off`" : "whole number"
        case .boolean: "`true` or `false`"
        case .duration(_, let neverIsAllowed): neverIsAllowed ? "time or `never`" : "time"
        case .size: "bytes"
        case .choice: "one of"
        case .list: "list"
        }
    }

    /// The allowed values; empty if all values of the kind are allowed.
    package var limits: String {
        switch self {
        case .string, .host, .path, .pem, .base64, .endpoint, .proxy, .boolean, .list: ""
        case .integer(let range, _): "\(range.lowerBound) to \(range.upperBound)"
        case .duration(let range, _): "\(Self.text(range.lowerBound)) to \(Self.text(range.upperBound))"
        case .size(let range): "\(Self.text(bytes: range.lowerBound)) to \(Self.text(bytes: range.upperBound))"
        case .choice(let words): words.joined(separator: ", ")
        }
    }

    /// Parses the text. Surrounding blanks are ignored, except in a `string`, which may be a password.
    func value(_ original: String) throws(Mistake) -> Value {
        let text = original.withoutBlanksAround
        func malformed(_ expected: String) -> Mistake { Mistake(code: .malformed, expected: expected) }
        switch self {
        case .string:
            return .text(original)
        case .host:
            guard APNSEnvironment.isHost(text), !text.utf8.contains(where: { "/@?#".utf8.contains($0) }) else {
                throw malformed("a host name or address, without scheme, user and port")
            }
            return .text(text)
        case .path:
            guard !text.utf8.contains(where: { $0 < 0x20 }) else { throw malformed("the path of a file") }
            return .text(text)
        case .pem:
            return .text(text)
        case .base64:
            guard let bytes = Data(base64Encoded: text.filter { !$0.isWhitespace }), !bytes.isEmpty else {
                throw malformed("base64")
            }
            return .bytes(Array(bytes))
        case .endpoint:
            return .server(try ServerURL(endpoint: text))
        case .proxy:
            return .server(try ServerURL(proxy: text))
        case .integer(let range, let offIsAllowed):
            if offIsAllowed, text.lowercased() == "off" { return .integer(nil) }
            guard let number = Int(text) else {
                throw malformed(offIsAllowed ? "a whole number or 'off'" : "a whole number")
            }
            guard range.contains(number) else { throw Mistake(code: .outOfRange) }
            return .integer(number)
        case .boolean:
            switch text.lowercased() {
            case "true", "yes", "on", "1": return .boolean(true)
            case "false", "no", "off", "0": return .boolean(false)
            default: throw malformed("'true' or 'false'")
            }
        case .duration(let range, let neverIsAllowed):
            if neverIsAllowed, text.lowercased() == "never" { return .duration(nil) }
            guard let time = Self.time(text) else {
                let form = "a time: seconds, or a number with a unit as in '500ms', '10s', '2m', '1h', '1d'"
                throw malformed(neverIsAllowed ? form + ", or 'never'" : form)
            }
            guard range.contains(time) else { throw Mistake(code: .outOfRange) }
            return .duration(time)
        case .size(let range):
            guard let number = Self.byteCount(text) else {
                throw malformed("a number of bytes, as in '65536', '64KiB', '16MiB'")
            }
            guard range.contains(number) else { throw Mistake(code: .outOfRange) }
            return .integer(number)
        case .choice(let words):
            guard let word = words.first(where: { $0.lowercased() == text.lowercased() }) else {
                throw malformed("one of \(words.joined(separator: ", "))")
            }
            return .text(word)
        case .list:
            return .texts(Self.texts(text))
        }
    }

    /// The texts between commas, without blanks around them and without empty ones.
    static func texts(_ text: String) -> [String] {
        text.split(separator: ",").map { String($0).withoutBlanksAround }.filter { !$0.isEmpty }
    }

    /// A readable message about an invalid text.
    ///
    /// - Parameter isShown: Whether the text may be quoted.
    func message(_ text: String, _ mistake: Mistake, isShown: Bool) -> String {
        let value = isShown ? "'\(Self.shown(text))'" : "the value"
        guard let expected = mistake.expected else { return "\(value) is out of range; allowed: \(self.limits)" }
        if case .choice = self { return "\(value) is not \(expected)" }
        return "\(value) is not \(expected)" + (self.limits.isEmpty ? "" : "; allowed: \(self.limits)")
    }

    /// Parses a whole number that is not a setting, such as an option of one command.
    ///
    /// - Returns: The number, or an error about the text.
    package static func wholeNumber(_ text: String, _ range: ClosedRange<Int>) -> Result<Int, APNSConfigurationError> {
        let kind = SettingKind.integer(range)
        do throws(Mistake) {
            return .success(try kind.value(text).integer ?? range.lowerBound)
        } catch {
            let message = kind.message(text, error, isShown: true)
            return .failure(APNSConfigurationError(error.code, setting: "", message: message))
        }
    }

    /// The text in an error: shortened, in one line.
    static func shown(_ text: String) -> String {
        let plain = text.unicodeScalars.prefix(80).map { $0.value < 0x20 || $0.value == 0x7F ? " " : String($0) }
        return plain.joined() + (text.unicodeScalars.count > 80 ? "…" : "")
    }

    // MARK: - Texts

    private static let timeUnits: [(name: String, nanoseconds: Double)] = [
        ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9), ("d", 86_400e9),
    ]
    private static let sizeUnits: [(name: String, bytes: Int)] = [
        ("B", 1), ("kB", 1000), ("MB", 1_000_000), ("GB", 1_000_000_000),
        ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40),
    ]

    /// Parses seconds, or a number with a unit. Nil for any other text and for durations too long for a timer.
    static func time(_ text: String) -> Duration? {
        let (number, unit) = self.split(text)
        guard !number.isEmpty, number.utf8.contains(where: { $0 != UInt8(ascii: ".") }), let count = Double(number),
            let factor = unit.isEmpty ? 1e9 : self.timeUnits.first(where: { $0.name == unit })?.nanoseconds
        else { return nil }
        let nanoseconds = (count * factor).rounded()
        // 285 years, which fit into 64 bits.
        return nanoseconds <= 9e18 ? .nanoseconds(Int64(nanoseconds)) : nil
    }

    /// Parses a whole number of bytes, with an optional unit.
    static func byteCount(_ text: String) -> Int? {
        let (number, unit) = self.split(text)
        guard let count = Int(number) else { return nil }
        guard !unit.isEmpty else { return count }
        guard let found = self.sizeUnits.first(where: { $0.name.lowercased() == unit.lowercased() }) else { return nil }
        let (bytes, overflow) = count.multipliedReportingOverflow(by: found.bytes)
        return overflow ? nil : bytes
    }

    /// The digits with their decimal point, and the text after them.
    private static func split(_ text: String) -> (number: String, unit: String) {
        let number = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        return (String(number), String(text.dropFirst(number.count)).withoutBlanksAround)
    }

    /// The duration in the largest whole unit: `300 s` is `5m`.
    static func text(_ time: Duration) -> String {
        let (seconds, attoseconds) = time.components
        guard attoseconds == 0 else {
            let milliseconds = Double(seconds) * 1000 + Double(attoseconds) / 1e15
            return milliseconds == milliseconds.rounded() ? "\(Int64(milliseconds))ms" : "\(milliseconds)ms"
        }
        for (unit, nanoseconds) in self.timeUnits.suffix(3).reversed() {
            let length = Int64(nanoseconds / 1e9)
            if seconds > 0, seconds % length == 0 { return "\(seconds / length)\(unit)" }
        }
        return "\(seconds)s"
    }

    /// The size in the largest whole unit.
    static func text(bytes: Int) -> String {
        for (unit, length) in self.sizeUnits.suffix(4).reversed() where bytes > 0 && bytes % length == 0 {
            return "\(bytes / length)\(unit)"
        }
        return "\(bytes)"
    }
}

extension SettingKind.Value {
    @_spi(Relay) public var text: String? { if case .text(let text) = self { text } else { nil } }
    @_spi(Relay) public var texts: [String]? { if case .texts(let texts) = self { texts } else { nil } }
    var bytes: [UInt8]? { if case .bytes(let bytes) = self { bytes } else { nil } }
    @_spi(Relay) public var integer: Int? { if case .integer(let number) = self { number } else { nil } }
    @_spi(Relay) public var boolean: Bool? { if case .boolean(let isSo) = self { isSo } else { nil } }
    @_spi(Relay) public var duration: Duration? { if case .duration(let time) = self { time } else { nil } }
    var server: ServerURL? { if case .server(let url) = self { url } else { nil } }
}

extension String {
    /// The text without leading and trailing white space (Unicode's), which copying may add.
    var withoutBlanksAround: String {
        // Most texts have none, so this check avoids Unicode's tables.
        func isPlain(_ byte: UInt8?) -> Bool { (0x21...0x7E).contains(byte ?? 0) }
        if isPlain(self.utf8.first), isPlain(self.utf8.last) { return self }
        var text = self[...]
        while let first = text.first, first.isWhitespace { text.removeFirst() }
        while let last = text.last, last.isWhitespace { text.removeLast() }
        return String(text)
    }
}

extension APNSConfigurationError.Code {
    /// The text of a setting does not have the format of the setting's kind.
    public static let malformed = APNSConfigurationError.Code(rawValue: "malformed")
    /// There is no setting with that key.
    public static let unknownSetting = APNSConfigurationError.Code(rawValue: "unknown-setting")
}
