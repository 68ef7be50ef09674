import HTTPTypes
import Hummingbird
import Logging
import NIOHTTP1

/// Handles every request: checks its origin, converts errors to JSON, adds headers to the response, and counts it.
struct RelayMiddleware: RouterMiddleware {
    typealias Context = RelayContext

    let routes: [APIRoute]
    /// The settings, which say whether everybody may do everything; nil if nobody can change anything.
    let live: LiveSettings?
    let metrics: HTTPMetrics

    @concurrent func handle(
        _ request: Request,
        context: RelayContext,
        next: @concurrent (Request, RelayContext) async throws -> Response
    ) async throws -> Response {
        let start = ContinuousClock.now
        var response: Response
        do {
            try Self.checkHost(request)
            if self.live?.current.authentication.isOpen == true { try OriginGuard.check(request) }
            response = try await next(request, context)
        } catch let error as HTTPParserError {
            // The connection reports it.
            throw error
        } catch {
            response = self.response(to: error, request, context)
        }
        Self.addHeaders(to: &response, path: request.uri.path)
        if request.method == .head { response = response.createHeadResponse() }
        self.metrics.count(
            route: self.route(request, context),
            status: response.status,
            received: context.bodyBytes.value,
            sent: response.body.contentLength ?? 0,
            duration: start.duration(to: .now)
        )
        return response
    }

    /// Checks that the request has exactly one header `Host` (RFC 9112 §3.2). With several, a proxy in front of the
    /// relay might use another one than the relay.
    private static func checkHost(_ request: Request) throws(APIError) {
        // The HTTP library has moved the first `Host` to the request's authority.
        let isRepeated = request.headers.contains { $0.name.canonicalName == "host" }
        guard request.head.authority != nil, !isRepeated else {
            throw APIError(.badRequest, .badRequest, "the request needs exactly one header host")
        }
    }

    /// The method and the template of the path. Both come from a fixed set, so the number of metric series stays small.
    private func route(_ request: Request, _ context: RelayContext) -> String {
        let method = request.method == .head ? .get : request.method
        guard let path = context.endpointPath,
            self.routes.contains(where: { $0.path == path && $0.method == method })
        else { return "other" }
        return "\(method.rawValue) \(path)"
    }

    private func response(to error: any Error, _ request: Request, _ context: RelayContext) -> Response {
        if let error = error as? APIError { return error.response }
        if let error = error as? any HTTPResponseError, error.status == .notFound {
            // Like the router, prefer a path without parameters: /v1/parked/retry to /v1/parked/{id}.
            let exact = self.routes.filter { $0.path == request.uri.path }
            let matching = exact.isEmpty ? self.routes.filter { $0.matches(request.uri.path) } : exact
            let methods = matching.map(\.method)
            if methods.isEmpty { return APIError.notFound("There is nothing at this path.").response }
            let allowed = methods.contains(.get) ? methods + [.head] : methods
            let list = allowed.map(\.rawValue).joined(separator: ", ")
            var response = APIError(.methodNotAllowed, .methodNotAllowed, "This path allows only \(list).").response
            response.headers[.allow] = list
            return response
        }
        context.logger.error("A request failed", metadata: ["error": "\(String(describing: error))"])
        return APIError(.internalServerError, .internalError, "An internal error. The relay's log has the details.")
            .response
    }

    private static func addHeaders(to response: inout Response, path: String) {
        response.headers[.xContentTypeOptions] = "nosniff"
        for (name, value) in self.fields(path) where !response.headers.contains(name) {
            response.headers[name] = value
        }
    }

    private static func fields(_ path: String) -> [(HTTPField.Name, String)] {
        let isData = path.split(separator: "/").first == "v1"
        var fields: [(HTTPField.Name, String)] = [
            (.contentSecurityPolicy, isData ? Self.dataPolicy : Self.pagePolicy),
            (.cacheControl, isData ? "no-store" : "no-cache"),
        ]
        for (name, value) in [
            ("referrer-policy", "no-referrer"), ("x-frame-options", "DENY"),
            ("cross-origin-resource-policy", "same-origin"), ("cross-origin-opener-policy", "same-origin"),
        ] {
            if let name = HTTPField.Name(name) { fields.append((name, value)) }
        }
        return fields
    }

    /// Lets the page load only its own files, and lets no other page show it in a frame.
    private static let pagePolicy =
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    private static let dataPolicy = "default-src 'none'; frame-ancestors 'none'"
}
