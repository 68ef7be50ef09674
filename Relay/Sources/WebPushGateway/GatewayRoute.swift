package import HTTPTypes
package import Logging
import PushQueue

/// An endpoint of the gateway: a path and a method.
package struct GatewayRoute: Sendable {
    /// Who may call an endpoint.
    package enum Access: Sendable {
        /// Everybody, without a token.
        case open
        /// Callers that may register devices.
        case registrars
    }

    package let method: HTTPRequest.Method
    /// The template of the path, for example `/webpush/subscriptions/{id}`.
    package let path: String
    package let access: Access
    /// - Throws: ``GatewayError``, `QueueError`, or an error of the server.
    package let respond: @Sendable (any GatewayRequest) async throws -> GatewayResponse

    init(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ access: Access,
        _ respond: @escaping @Sendable (any GatewayRequest) async throws -> GatewayResponse
    ) {
        self.method = method
        self.path = path
        self.access = access
        self.respond = respond
    }
}

/// A request, as the server gives it to the gateway.
package protocol GatewayRequest: Sendable {
    var method: HTTPRequest.Method { get }
    var path: String { get }
    var headers: HTTPFields { get }
    /// The caller, by its token; with ``GatewayRoute/Access/open``, anybody.
    var caller: GatewayCaller { get }
    var logger: Logger { get }

    /// A variable part of the path, decoded; empty if it is not valid.
    func pathPart(_ name: String) -> String

    /// Throws an error if the request has a query.
    func requireNoQuery() throws

    /// Reads the whole body.
    ///
    /// - Parameters:
    ///   - limit: the maximum size in bytes.
    ///   - use: gets the body.
    func withBody<Value>(atMost limit: Int, _ use: ([UInt8]) async throws -> Value) async throws -> Value

    /// Reads and decodes a body that is a JSON object.
    ///
    /// - Parameters:
    ///   - type: the type, whose members are the only ones that the object may have.
    ///   - limit: the maximum size in bytes.
    func json<Value: GatewayBody>(_ type: Value.Type, atMost limit: Int) async throws -> (value: Value, bytes: [UInt8])
}

/// The body of a request: a JSON object whose members are all known.
package protocol GatewayBody: Decodable, Sendable {
    /// The names of the members.
    static var members: [String] { get }
    /// The meaning of names that clients of other services use, as sentences.
    static var hints: [String: String] { get }
}

extension GatewayBody {
    package static var hints: [String: String] { [:] }
}

/// Who calls the gateway.
package struct GatewayCaller: Sendable, Hashable {
    package let name: String
    /// The apps that it may use; nil for all.
    package let apps: Set<String>?

    package init(name: String, apps: Set<String>?) {
        self.name = name
        self.apps = apps
    }
}

/// A response of the gateway.
package struct GatewayResponse: Sendable {
    package var status: HTTPResponse.Status
    package var headers = HTTPFields()
    /// A JSON text; nil for no body.
    package var json: [UInt8]?

    init(_ status: HTTPResponse.Status, headers: HTTPFields = HTTPFields(), json: [UInt8]? = nil) {
        self.status = status
        self.headers = headers
        self.json = json
    }

    static func json(_ value: some Encodable, status: HTTPResponse.Status = .ok) -> GatewayResponse {
        GatewayResponse(status, json: StoredJSON.encode(value))
    }
}
