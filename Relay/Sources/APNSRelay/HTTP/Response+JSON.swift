import HTTPTypes
import Hummingbird

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

extension Response {
    /// A response with a JSON body.
    static func json(
        _ value: some Encodable,
        status: HTTPResponse.Status = .ok,
        headers: HTTPFields = HTTPFields()
    ) -> Response {
        // The values contain only strings and finite numbers, which can always be encoded.
        guard let data = try? ResponseEncoder.encode(value) else { return Response(status: .internalServerError) }
        return Self.body(ByteBuffer(bytes: data), "application/json", status: status, headers: headers)
    }

    /// A response with a text as its body.
    static func text(
        _ text: String,
        _ contentType: String = "text/plain; charset=utf-8",
        status: HTTPResponse.Status = .ok
    ) -> Response {
        Self.body(ByteBuffer(string: text), contentType, status: status)
    }

    static func body(
        _ body: ByteBuffer,
        _ contentType: String,
        status: HTTPResponse.Status = .ok,
        headers: HTTPFields = HTTPFields()
    ) -> Response {
        var headers = headers
        headers[.contentType] = contentType
        return Response(status: status, headers: headers, body: ResponseBody(byteBuffer: body))
    }
}
