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

    static func json(_ value: some Encodable, status: HTTPResponseStatus = .ok) -> ControlResponse {
        .bytes(self.line(value), type: "application/json", status: status)
    }

    /// A value as JSON on one line.
    static func line(_ value: some Encodable) -> [UInt8] {
        // Only numbers that are not finite could fail, and no value of this API has any.
        let bytes = (try? JSONBytesEncoder.encode(value)) ?? Array("null".utf8)
        return bytes + [UInt8(ascii: "\n")]
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
