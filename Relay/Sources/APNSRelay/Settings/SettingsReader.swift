import Configuration

/// Reads settings as texts, checks them, and collects all errors, so that an operator sees them together.
struct SettingsReader {
    let reader: ConfigReader
    private(set) var problems: [String] = []

    init(_ reader: ConfigReader) {
        self.reader = reader
    }

    mutating func fail(_ key: String, _ message: String) {
        self.problems.append("\(key): \(message)")
    }

    /// The text of a setting; numbers and booleans of a source are converted. Nil if no source has it or it is empty.
    func text(_ key: String, isSecret: Bool = false) -> String? {
        let name = ConfigKey(key)
        let text =
            self.reader.string(forKey: name, isSecret: isSecret)
            ?? self.reader.int(forKey: name, isSecret: isSecret).map(String.init)
            ?? self.reader.bool(forKey: name, isSecret: isSecret).map { "\($0)" }
            ?? self.reader.double(forKey: name, isSecret: isSecret).map { "\($0)" }
        return text?.isEmpty == true ? nil : text
    }

    /// A list: an array in a file, or a text with commas.
    func list(_ key: String) -> [String]? {
        let values = self.reader.stringArray(forKey: ConfigKey(key)) ?? self.text(key).map { [$0] }
        return values?.flatMap { $0.split(separator: ",") }
            .map { String($0.drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace).reversed()) }
            .filter { !$0.isEmpty }
    }

    mutating func int(_ key: String, _ range: ClosedRange<Int>, into target: inout Int) {
        guard let text = self.text(key) else { return }
        guard let value = Int(text), range.contains(value) else {
            self.fail(key, "\"\(text)\" is not a number from \(range.lowerBound) to \(range.upperBound)")
            return
        }
        target = value
    }

    mutating func bool(_ key: String, into target: inout Bool) {
        switch self.text(key) {
        case nil: break
        // A JSON file's true and false may be read as numbers.
        case "true", "1": target = true
        case "false", "0": target = false
        case let text?: self.fail(key, "\"\(text)\" is neither true nor false")
        }
    }

    mutating func duration(_ key: String, _ range: ClosedRange<Duration>, into target: inout Duration) {
        guard let text = self.text(key) else { return }
        guard let value = Self.duration(text), range.contains(value) else {
            self.fail(
                key,
                "\"\(text)\" is not a duration from \(range.lowerBound) to \(range.upperBound), such as 30s, 10m, 12h or 7d"
            )
            return
        }
        target = value
    }

    /// `500ms`, `30s`, `10m`, `12h`, `7d`; a number alone is in seconds.
    static func duration(_ text: String) -> Duration? {
        let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        guard let number = Double(digits), number >= 0, number < 1e10 else { return nil }
        switch text.dropFirst(digits.count) {
        case "ms": return .seconds(number / 1_000)
        case "s", "": return .seconds(number)
        case "m": return .seconds(number * 60)
        case "h": return .seconds(number * 3_600)
        case "d": return .seconds(number * 86_400)
        default: return nil
        }
    }
}

/// The settings cannot be used.
public struct RelaySettingsError: Error, Sendable, Hashable, CustomStringConvertible {
    /// What is wrong, a line for each setting.
    public var problems: [String]

    public init(_ problems: [String]) {
        self.problems = problems
    }

    public var description: String { self.problems.joined(separator: "\n") }
}
