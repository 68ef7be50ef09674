@_spi(Relay) import APNSModel
@_spi(Relay) import APNSPool
import HTTPTypes
import PushQueue
import WebPushGateway

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

extension GatewayBody {
    /// - Throws: an error that names the member that is unknown, missing, repeated or of a wrong type.
    static func decoded(from bytes: [UInt8]) throws(APIError) -> Self {
        var names: Set<String> = []
        for name in try self.names(in: bytes) {
            guard self.members.contains(name) else { throw self.unknown(name) }
            guard names.insert(name).inserted else { throw .invalid(name, "this member must occur only once") }
        }
        do {
            return try JSONDecoder().decode(Self.self, from: Data(bytes))
        } catch DecodingError.keyNotFound(let key, _) {
            throw .invalid(key.stringValue, "this member is missing")
        } catch DecodingError.valueNotFound(_, let context) {
            throw .invalid(context.codingPath.last?.stringValue ?? "", "this member is missing")
        } catch DecodingError.typeMismatch(let type, let context) {
            let expected = type == Bool.self ? "true or false" : type == String.self ? "a string" : "another type"
            throw .invalid(context.codingPath.last?.stringValue ?? "", "expected \(expected)")
        } catch {
            throw APIError(.badRequest, .badJSON, "Expected a JSON object in UTF-8.")
        }
    }

    private static func names(in bytes: [UInt8]) throws(APIError) -> [String] {
        try bytes.withUnsafeBufferPointer { (bytes) throws(APIError) in
            var scanner = JSONScanner(bytes)
            var members: [JSONScanner.Member] = []
            do throws(JSONScanner.Failure) {
                try scanner.object(into: &members)
            } catch {
                throw APIError(
                    .badRequest,
                    .badJSON,
                    "Expected a JSON object; invalid JSON at byte \(error.offset + 1): \(error)"
                )
            }
            return members.map { scanner.text($0.key) }
        }
    }

    private static func unknown(_ name: String) -> APIError {
        let plain = name.lowercased().filter { $0 != "_" && $0 != "-" }
        let near =
            self.members.first { $0.lowercased() == plain } ?? NearestKey.of(name, among: self.members)
        let hint = self.hints[plain] ?? near.map { "Do you mean \($0)?" } ?? ""
        let known = self.members.joined(separator: ", ")
        return .invalid(printable(name), "unknown member; expected only \(known). \(hint)".trimmedEnd)
    }
}

extension String {
    /// Without a space at the end.
    fileprivate var trimmedEnd: String { self.hasSuffix(" ") ? String(self.dropLast()) : self }
}
