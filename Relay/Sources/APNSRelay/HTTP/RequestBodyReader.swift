import HTTPTypes
import Hummingbird
import HummingbirdCore
import NIOCore
import NIOHTTPTypes
import WebPushGateway

/// Reads bodies within the limits of the settings.
struct RequestBodyReader: Sendable {
    /// The maximum size of one body, in bytes.
    let limit: Int
    let budget: BufferBudget

    /// Reads a whole body.
    ///
    /// - Parameters:
    ///   - request: the request.
    ///   - channel: the request's connection.
    ///   - reserved: receives the number of reserved bytes. Release them later, even after an error.
    /// - Throws: `APIError`: `bodyTooLarge` (without reading the body if the request names its length); `timeout`;
    ///   `unavailable` if all bodies together are too large; `shuttingDown`.
    private func read(_ request: Request, _ channel: any Channel, reserved: inout Int) async throws -> ByteBuffer {
        if let length = request.headers[.contentLength].flatMap({ Int($0) }), length > self.limit {
            throw self.tooLarge
        }
        Self.continueIfExpected(request, channel)
        var body = ByteBuffer()
        do {
            for try await part in request.body {
                guard body.readableBytes + part.readableBytes <= self.limit else { throw self.tooLarge }
                guard self.budget.reserve(part.readableBytes) else { throw Self.tooMany }
                reserved += part.readableBytes
                body.writeImmutableBuffer(part)
            }
        } catch RequestFault.tooSlow {
            throw APIError(.requestTimeout, .timeout, "The body did not arrive in time. Nothing was stored.")
        } catch RequestFault.shuttingDown {
            throw APIError.shuttingDown
        }
        return body
    }

    /// Reads a whole body. Its size stays reserved until `use` returns, also if `use` frees the bytes earlier.
    ///
    /// - Throws: the errors of the method above, and those of `use`.
    func withBody<Value>(
        of request: APIRequest,
        _ use: (consuming ByteBuffer) async throws -> Value
    ) async throws -> Value {
        var reserved = 0
        defer {
            self.budget.release(reserved)
            request.context.bodyBytes.value = reserved
        }
        return try await use(try await self.read(request.request, request.context.channel, reserved: &reserved))
    }

    /// Reserves memory for a request that reads its body part by part.
    ///
    /// - Parameters:
    ///   - bytes: how much of the body the request holds at a time. At most the limit of one body is reserved, so that one
    ///     request always fits.
    ///   - use: reads the body.
    /// - Throws: `APIError`: `unavailable` if all bodies together are too large; the errors of `use`.
    func withRoom<Value>(for bytes: Int, _ use: () async throws -> Value) async throws -> Value {
        let reserved = min(bytes, self.limit)
        guard self.budget.reserve(reserved) else { throw Self.tooMany }
        defer { self.budget.release(reserved) }
        return try await use()
    }

    /// Reads and decodes a body that is a JSON object.
    func json<Value: GatewayBody>(
        _ type: Value.Type,
        of request: APIRequest
    ) async throws -> (value: Value, bytes: [UInt8]) {
        guard try request.mediaType() == "application/json" else {
            throw APIError(.unsupportedMediaType, .unsupportedMediaType, "Expected the content type application/json.")
        }
        return try await self.withBody(of: request) { body in
            let bytes = Array(body.readableBytesView)
            return (try Value.decoded(from: bytes), bytes)
        }
    }

    /// Tells the caller to send the body, if it waits for that.
    static func continueIfExpected(_ request: Request, _ channel: any Channel) {
        guard request.headers[.expect]?.lowercased() == "100-continue" else { return }
        channel.writeAndFlush(HTTPResponsePart.head(HTTPResponse(status: .continue)), promise: nil)
    }

    private static let tooMany = APIError(
        .serviceUnavailable,
        .unavailable,
        "Too many large requests are being read. Nothing was stored; try again later.",
        retryAfter: 1
    )

    private var tooLarge: APIError {
        APIError(
            .contentTooLarge,
            .bodyTooLarge,
            "The body is larger than \(self.limit) bytes. Nothing was stored."
        )
    }
}
