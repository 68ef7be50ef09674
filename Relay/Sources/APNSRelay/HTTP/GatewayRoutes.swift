import APNSModel
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import PushQueue
import ServiceLifecycle
import WebPushGateway

/// The endpoints of the gateway for Web Push, as endpoints of the relay.
struct GatewayRoutes: Sendable {
    let gateway: Gateway
    /// The limit on the size of all bodies that are being read.
    let budget: BufferBudget

    var routes: [APIRoute] {
        self.gateway.routes.map { route in
            let access: APIRoute.Access =
                switch route.access {
                case .open: .open
                case .registrars: .oneOf([.subscribe])
                }
            return APIRoute(route.method, route.path, access) { request in
                if Task.isShuttingDownGracefully { throw APIError.shuttingDown }
                do {
                    let response = try await route.respond(RelayGatewayRequest(request: request, budget: self.budget))
                    guard let json = response.json else {
                        return Response(status: response.status, headers: response.headers)
                    }
                    let body = ByteBuffer(bytes: json)
                    return .body(body, "application/json", status: response.status, headers: response.headers)
                } catch let error as GatewayError {
                    throw APIError(error)
                } catch let error as QueueError {
                    throw APIError(error)
                }
            }
        }
    }
}

private struct RelayGatewayRequest: GatewayRequest {
    let request: APIRequest
    let budget: BufferBudget

    var method: HTTPRequest.Method { self.request.request.method }
    var path: String { self.request.request.uri.path }
    var headers: HTTPFields { self.request.request.headers }
    var caller: GatewayCaller { GatewayCaller(name: self.request.caller.name, apps: self.request.caller.apps) }
    var logger: Logger { self.request.logger }

    func pathPart(_ name: String) -> String { self.request.pathPart(name) }

    func requireNoQuery() throws { _ = try self.request.query() }

    func withBody<Value>(atMost limit: Int, _ use: ([UInt8]) async throws -> Value) async throws -> Value {
        try await RequestBodyReader(limit: limit, budget: self.budget).withBody(of: self.request) { body in
            try await use(Array(body.readableBytesView))
        }
    }

    func json<Value: GatewayBody>(
        _ type: Value.Type,
        atMost limit: Int
    ) async throws -> (value: Value, bytes: [UInt8]) {
        try await RequestBodyReader(limit: limit, budget: self.budget).json(type, of: self.request)
    }
}

/// What the relay does for the gateway.
struct RelayGatewayHost: GatewayHost {
    let live: LiveSettings
    let intake: PushIntake
    let quota: PushQuota

    func app(_ name: String) -> GatewayApp? { self.live.apps[name].map(GatewayApp.init) }

    func destination(_ app: String, _ environment: String?) throws -> (app: GatewayApp, environment: String) {
        let found = try self.live.destination(app, environment)
        return (GatewayApp(found.app), found.environment)
    }

    func take(_ limits: [(name: String, pushesPerMinute: Int)]) -> Duration? { self.quota.take(limits) }

    func store(_ push: NewPush) async throws -> APNSID {
        do {
            switch try await self.intake.store([push], isPartial: true).first {
            case .duplicate(let id), .conflict(let id): return id
            case .queued, nil: return push.id
            }
        } catch  where error.code == .undecided {
            throw QueueError(code: .undecided, message: error.message)
        }
    }
}

extension GatewayApp {
    init(_ app: RelayApp) {
        self.init(name: app.name, topic: app.topic, appIDPrefix: app.appIDPrefix)
    }
}

extension APIError {
    /// The error for a request that the gateway refuses.
    fileprivate init(_ error: GatewayError) {
        let (status, code): (HTTPResponse.Status, Code) =
            switch error.code {
            case .badRequest: (.badRequest, .badRequest)
            case .unauthorized: (.unauthorized, .unauthorized)
            case .forbidden: (.forbidden, .forbidden)
            case .notFound: (.notFound, .notFound)
            case .conflict: (.conflict, .conflict)
            case .bodyTooLarge: (.contentTooLarge, .bodyTooLarge)
            case .unsupportedMediaType: (.unsupportedMediaType, .unsupportedMediaType)
            case .rateLimited: (.tooManyRequests, .rateLimited)
            case .unavailable: (.serviceUnavailable, .unavailable)
            }
        self.init(status, code, error.message, field: error.field, retryAfter: error.retryAfter)
        self.scheme = error.scheme
    }
}

/// Runs the gateway until a shutdown.
struct GatewayService: Service {
    let gateway: Gateway

    func run() async throws {
        await cancelWhenGracefulShutdown { await self.gateway.run() }
        // A service that ends before its turn counts as failed in a service group.
        try? await gracefulShutdown()
    }
}
