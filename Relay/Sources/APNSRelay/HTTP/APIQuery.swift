import HTTPTypes
import Hummingbird
import HummingbirdCore
import PushQueue

/// The query of a request. Unknown and repeated parameters are refused, so that a mistyped name does not change the
/// meaning of a request.
struct APIQuery {
    private var values: [String: String] = [:]

    /// - Parameters:
    ///   - request: the request.
    ///   - names: the parameters that the query may have.
    init(_ request: Request, allowing names: Set<String>) throws(APIError) {
        for pair in (request.uri.query ?? "").split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let value = parts.count == 2 ? String(parts[1]) : ""
            guard let name = Self.decoded(String(parts[0])), let value = Self.decoded(value) else {
                throw Self.error("the query must be percent-encoded UTF-8")
            }
            guard names.contains(name) else {
                let known = names.isEmpty ? "none" : "only \(names.sorted().joined(separator: ", "))"
                throw Self.error("unknown parameter \(printable(name)); expected \(known)")
            }
            guard self.values.updateValue(value, forKey: name) == nil else {
                throw Self.error("the parameter \(name) must occur only once")
            }
        }
    }

    func text(_ name: String) -> String? { self.values[name] }

    func bool(_ name: String) throws(APIError) -> Bool {
        switch self.values[name] {
        case nil, "false": return false
        case "true": return true
        default: throw Self.error("\(name): expected true or false")
        }
    }

    /// A whole number in a range.
    ///
    /// - Parameter unit: what may follow the number.
    func integer(_ name: String, in range: ClosedRange<Int64>, unit: String = "") throws(APIError) -> Int64? {
        guard var text = self.values[name] else { return nil }
        if text.hasSuffix(unit) { text.removeLast(unit.count) }
        guard text.utf8.first != UInt8(ascii: "+"), let number = Int64(text), range.contains(number) else {
            throw Self.error("\(name): expected a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// The size of a page: the parameter `limit`, by default 100.
    func limit() throws(APIError) -> Int {
        Int(try self.integer("limit", in: 1...1_000) ?? 100)
    }

    private static func decoded(_ text: String) -> String? {
        // Forms and browsers encode a space as a plus sign.
        PercentEncoding.decode(text.replacing("+", with: " "))
    }

    static func error(_ message: String) -> APIError { APIError(.badRequest, .badQuery, message) }
}
