import HTTPTypes
import Hummingbird
import Logging

/// An endpoint of the API: a path and a method.
struct APIRoute: Sendable {
    /// Who may call an endpoint.
    enum Access: Sendable {
        /// Everybody, without a token.
        case open
        /// Callers with at least one of these roles.
        case oneOf([Role])
    }

    var method: HTTPRequest.Method
    /// The template of the path, for example `/v1/pushes/{id}`.
    var path: String
    var access: Access
    var respond: @Sendable (APIRequest) async throws -> Response

    init(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ access: Access,
        _ respond: @escaping @Sendable (APIRequest) async throws -> Response
    ) {
        self.method = method
        self.path = path
        self.access = access
        self.respond = respond
    }

    /// Whether a path matches the template.
    func matches(_ path: String) -> Bool {
        let template = self.path.split(separator: "/")
        let parts = path.split(separator: "/")
        return template.count == parts.count
            && zip(template, parts).allSatisfy { $0.hasPrefix("{") || $0 == $1 }
    }
}

/// A request from a caller that may call the endpoint.
struct APIRequest: Sendable {
    var request: Request
    var context: RelayContext
    var caller: Caller

    var logger: Logger { self.context.logger }

    /// The query of the request, which may have only these parameters.
    func query(_ names: Set<String> = []) throws(APIError) -> APIQuery {
        try APIQuery(self.request, allowing: names)
    }

    /// The media type of the body, in lower case; nil if the request names none.
    ///
    /// - Throws: `unsupportedMediaType` for a character encoding other than UTF-8, or a content encoding.
    func mediaType() throws(APIError) -> String? {
        let headers = self.request.headers
        let parts = (headers[.contentType] ?? "").lowercased().split(separator: ";")
            .map { $0.filter { $0 != " " && $0 != "\t" && $0 != "\"" } }
        let isUTF8 = parts.dropFirst().allSatisfy { !$0.hasPrefix("charset=") || $0 == "charset=utf-8" }
        guard headers[.contentEncoding] == nil, isUTF8 else {
            throw APIError(.unsupportedMediaType, .unsupportedMediaType, "Expected UTF-8 without a content encoding.")
        }
        return parts.first
    }

    /// The value of the header `Idempotency-Key`, also in the quotation marks of a structured field; nil if there is none.
    ///
    /// - Parameter limit: its greatest length in bytes.
    func idempotencyKey(limit: Int) throws(APIError) -> String? {
        let values = self.request.headers[values: .idempotencyKey]
        guard let value = values.first else { return nil }
        let isQuoted = value.count >= 2 && value.hasPrefix("\"") && value.hasSuffix("\"")
        let key = isQuoted ? String(value.dropFirst().dropLast()) : value
        guard values.count == 1, (1...limit).contains(key.utf8.count),
            !key.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F })
        else {
            throw APIError(
                .badRequest,
                .badRequest,
                "Idempotency-Key: expected this header once, with 1 to \(limit) bytes of UTF-8 without control characters.",
                field: "Idempotency-Key"
            )
        }
        return key
    }

    /// A variable part of the path, decoded; empty if it is not valid percent-encoded UTF-8.
    func pathPart(_ name: String) -> String {
        self.context.parameters.get(name).flatMap { PercentEncoding.decode($0) } ?? ""
    }
}

extension HTTPField.Name {
    static let idempotencyKey = HTTPField.Name("idempotency-key")!
}
