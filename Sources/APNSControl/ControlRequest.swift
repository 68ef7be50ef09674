import APNSBasics
import APNSModel
import APNSSimulator
import NIOHTTP1

/// A complete request to the control API.
struct ControlRequest: Sendable {
    var method: HTTPMethod
    /// The parts of the path, without percent-encoding.
    var path: [String]
    /// The query's values by name. The last one counts if a name is repeated.
    var query: [String: String]
    var headers: HTTPHeaders
    var body: [UInt8] = []

    init(_ head: HTTPRequestHead) throws {
        self.method = head.method
        self.headers = head.headers
        let target = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        var path: [String] = []
        for part in target[0].split(separator: "/", omittingEmptySubsequences: false).dropFirst() {
            path.append(try Self.decoded(part))
        }
        self.path = path == [""] ? [] : path
        self.query = [:]
        guard target.count > 1 else { return }
        for pair in target[1].split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let value = parts.count > 1 ? try Self.decoded(Substring(parts[1].replacing("+", with: " "))) : ""
            self.query[try Self.decoded(parts[0])] = value
        }
    }

    private static func decoded(_ text: Substring) throws -> String {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.first.flatMap(Hexadecimal.value),
                let low = rest.dropFirst().first.flatMap(Hexadecimal.value)
            else {
                throw ControlError.invalid("'\(text)' is not percent-encoded: % needs two hexadecimal digits after it.")
            }
            bytes.append(high << 4 | low)
            rest = rest.dropFirst(2)
        }
        guard let decoded = String(validating: bytes, as: UTF8.self) else {
            throw ControlError.invalid("'\(text)' is not UTF-8 after percent-decoding.")
        }
        return decoded
    }

    /// The body as an object whose keys are among these.
    func object(_ keys: [String]) throws -> JSONReader {
        guard let value = JSONValue(json: self.body) else {
            throw ControlError.invalid(
                "The body is not JSON. Send an object with the keys \(keys.joined(separator: ", "))."
            )
        }
        let object = try JSONReader(value, path: "")
        try object.allow(keys)
        return object
    }

    /// A whole number in the query.
    func integer(_ name: String, in range: ClosedRange<Int>) throws -> Int? {
        guard let text = self.query[name] else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw ControlError.invalid(
                "\(name)=\(text): expected a whole number from \(range.lowerBound) to \(range.upperBound)."
            )
        }
        return number
    }

    func flag(_ name: String) throws -> Bool {
        switch self.query[name] {
        case nil, "false": false
        case "true": true
        case .some(let text): throw ControlError.invalid("\(name)=\(text): expected true or false.")
        }
    }

    /// Throws if the query has a name that is not in the list.
    func allowQuery(_ names: [String]) throws {
        for name in self.query.keys.sorted() where !names.contains(name) {
            let known =
                names.isEmpty ? "There are none here." : "The parameters here are \(names.joined(separator: ", "))."
            throw ControlError(.badRequest, "unknown-parameter", "Unknown query parameter '\(name)'. \(known)")
        }
    }
}
