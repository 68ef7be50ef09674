import APNSModel
import NIOHTTP1

/// A response of the control API.
struct ControlResponse: Sendable {
    /// Writes a part of a response; throws when the client is gone.
    typealias Writer = @Sendable ([UInt8]) async throws -> Void

    enum Body: Sendable {
        case bytes([UInt8])
        /// A body without a known length, written until the closure returns.
        case stream(@Sendable (Writer) async throws -> Void)
    }

    var status: HTTPResponseStatus = .ok
    var headers: HTTPHeaders = ["cache-control": "no-store", "x-content-type-options": "nosniff"]
    var body = Body.bytes([])

    static let noContent = ControlResponse(status: .noContent)

    static func json(_ value: JSONValue, status: HTTPResponseStatus = .ok) -> ControlResponse {
        // The line end is for people who use curl.
        .bytes(value.bytes + [UInt8(ascii: "\n")], type: "application/json", status: status)
    }

    static func bytes(_ bytes: [UInt8], type: String, status: HTTPResponseStatus = .ok) -> ControlResponse {
        var response = ControlResponse(status: status, body: .bytes(bytes))
        response.headers.add(name: "content-type", value: type)
        return response
    }

    static func stream(
        type: String,
        _ body: @escaping @Sendable (Writer) async throws -> Void
    ) -> ControlResponse {
        var response = ControlResponse(body: .stream(body))
        response.headers.add(name: "content-type", value: type)
        return response
    }
}
