import HTTPTypes
import Hummingbird
import HummingbirdCore
import Logging
import Metrics
import NIOCore
import NIOHTTPTypes
import PushQueue
import ServiceLifecycle
import WebPushGateway

/// The relay's HTTP server.
///
/// A graceful shutdown closes the listening socket and idle connections. Requests that have arrived completely get
/// their response. Requests that are still arriving, and new ones on open connections, get 503 and have no effect.
struct RelayAPI: Sendable {
    private let settings: HTTPSettings
    private let live: LiveSettings
    private let tls: ListenerTLS?
    private let logger: Logger
    private let metrics: HTTPMetrics
    private let connections: OpenConnections
    /// The endpoints of the API's listener. Exposed for tests.
    let routes: [APIRoute]
    /// The endpoints of the probes' own listener; empty if the API's listener has them.
    private let probes: [APIRoute]
    /// The gateway for Web Push; nil if the settings have none.
    let gateway: Gateway?
    /// The limit on the size of all bodies that are being read. Exposed for tests.
    let budget: BufferBudget

    /// - Parameters:
    ///   - live: the apps and the callers. The other settings are read once, here.
    ///   - tls: the certificates of the listener; nil for no TLS.
    ///   - queue: the queue that stores the pushes.
    ///   - clock: the time of day and the time for leases.
    ///   - status: the state of the rest of the relay.
    ///   - news: signals new outcomes.
    ///   - reload: reads the settings again; nil if that is not possible.
    ///   - version: the version that the overview reports.
    ///   - metrics: the text of `/metrics`.
    ///   - pages: the files of the page.
    ///   - limits: the limits of callers and apps; nil to make them from the settings.
    ///   - factory: the backend for the metrics of requests.
    ///   - logger: the logger for requests. It never gets a token or a payload.
    init(
        live: LiveSettings,
        tls: ListenerTLS? = nil,
        queue: any PushQueue,
        clock: any QueueClock,
        status: any RelayStatus,
        news: FeedNews = FeedNews(),
        reload: SettingsReload? = nil,
        version: String = "0",
        metrics: @escaping @Sendable () async -> String,
        pages: [PageFile] = [],
        limits: CallerLimits? = nil,
        factory: any MetricsFactory = MetricsSystem.factory,
        logger: Logger
    ) {
        let settings = live.current.settings
        self.settings = settings.http
        self.live = live
        self.tls = tls
        self.logger = logger
        self.metrics = HTTPMetrics(factory: factory)
        self.connections = OpenConnections(settings.http, logger: logger)
        self.budget = BufferBudget(limit: settings.http.maxBufferedBytes)
        let reader = RequestBodyReader(limit: settings.http.maxBodyBytes, budget: self.budget)
        let limits = limits ?? CallerLimits(settings, queue: queue, clock: clock)
        let intake = PushIntake(queue: queue, limits: limits, status: status, logger: logger)
        let pushes = PushRoutes(
            live: live,
            dispatch: settings.dispatch,
            queue: queue,
            intake: intake,
            clock: clock,
            reader: reader,
            limits: limits
        )
        let batches = BatchRoutes(
            live: live,
            dispatch: settings.dispatch,
            queue: queue,
            clock: clock,
            status: status,
            reader: reader,
            intake: intake
        )
        let operators = OperatorRoutes(
            queue: queue,
            clock: clock,
            status: status,
            limits: limits,
            version: version
        )
        let fleet = SettingsRoutes(
            live: live,
            queue: queue,
            status: status,
            budget: self.budget
        )
        self.gateway = settings.webPush.flatMap { webPush in
            Gateway(
                webPush,
                queue: queue,
                clock: clock,
                maxDeadline: settings.dispatch.maxDeadline,
                host: RelayGatewayHost(live: live, intake: intake, quota: PushQuota(clock: clock)),
                logger: logger
            )
        }
        let webPush = self.gateway.map { [budget = self.budget] in GatewayRoutes(gateway: $0, budget: budget).routes }
        let page = PageRoutes(
            files: pages + [PageFiles.openAPI(with: self.gateway == nil ? [] : [Gateway.openAPI])],
            status: status,
            metrics: metrics
        )
        let hasProbePort = settings.http.probePort != nil
        self.probes = hasProbePort ? page.probes : []
        self.routes =
            pushes.routes + batches.routes + FeedRoutes(queue: queue, news: news).routes + operators.routes
            + fleet.routes + ReloadRoutes(reload: reload).routes + page.routes + (webPush ?? [])
            + (hasProbePort ? [] : page.probes)
    }

    /// Makes the server, but does not start it.
    ///
    /// - Parameter onStart: called once, with the port on which the server listens.
    /// - Throws: `RelayAPIError`.
    func makeApplication(
        onStart: @escaping @Sendable (Int) -> Void = { _ in }
    ) throws(RelayAPIError) -> some ApplicationProtocol {
        if self.live.current.authentication.isOpen, !OriginGuard.isLoopbackAddress(self.settings.host) {
            throw RelayAPIError(
                code: .callersMissing,
                message: "No callers are configured, so the API may listen only on a loopback address, not on "
                    + "\(self.settings.host). Configure callers with tokens, or listen on 127.0.0.1."
            )
        }
        return Application(
            router: try self.router(self.routes, mayChange: true),
            server: self.server(self.connections, self.tls),
            configuration: ApplicationConfiguration(
                address: .hostname(self.settings.host, port: self.settings.port),
                availableConnectionsDelegate: .maximum(max(1, self.settings.maxConnections), logger: self.logger)
            ),
            onServerRunning: { channel in onStart(channel.localAddress?.port ?? 0) },
            logger: self.logger
        )
    }

    /// Makes the server for probes and metrics, without TLS and tokens, but does not start it.
    ///
    /// - Parameter onStart: called once, with the port on which the server listens.
    /// - Returns: the server; nil if the API's server has these endpoints.
    /// - Throws: `RelayAPIError`.
    func makeProbes(
        onStart: @escaping @Sendable (Int) -> Void = { _ in }
    ) throws(RelayAPIError) -> (some ApplicationProtocol)? {
        guard let port = self.settings.probePort else { return nil as Application<RouterResponder<RelayContext>>? }
        return Application(
            router: try self.router(self.probes, mayChange: false),
            server: self.server(OpenConnections(self.settings, logger: self.logger), nil),
            configuration: ApplicationConfiguration(
                address: .hostname(self.settings.probeHost ?? self.settings.host, port: port),
                availableConnectionsDelegate: .maximum(max(1, self.settings.maxConnections), logger: self.logger)
            ),
            onServerRunning: { channel in onStart(channel.localAddress?.port ?? 0) },
            logger: self.logger
        )
    }

    /// - Parameter mayChange: whether a route can change something. Without callers, requests of other web pages are refused
    ///   then.
    private func router(_ routes: [APIRoute], mayChange: Bool) throws(RelayAPIError) -> Router<RelayContext> {
        let router = Router(context: RelayContext.self, options: .autoGenerateHeadEndpoints)
        router.add(
            middleware: RelayMiddleware(
                routes: routes,
                live: mayChange ? self.live : nil,
                metrics: self.metrics
            )
        )
        var seen: Set<String> = []
        for route in routes {
            guard seen.insert("\(route.method.rawValue) \(route.path)").inserted else {
                throw RelayAPIError(code: .pageInvalid, message: "Two endpoints share the path \(route.path).")
            }
            router.on(RouterPath(route.path), method: route.method) { request, context in
                try await self.respond(to: request, context, route)
            }
        }
        return router
    }

    private func respond(to request: Request, _ context: RelayContext, _ route: APIRoute) async throws -> Response {
        var caller = CallerAuthentication.anybody
        if case .oneOf(let roles) = route.access {
            if Task.isShuttingDownGracefully { throw APIError.shuttingDown }
            caller = try self.live.current.authentication.caller(request.headers)
            guard roles.contains(where: caller.has) else { throw APIError.missing(roles, of: caller) }
        }
        return try await route.respond(APIRequest(request: request, context: context, caller: caller))
    }

    private func server(_ connections: OpenConnections, _ tls: ListenerTLS?) -> HTTPServerBuilder {
        let limits = ConnectionMachine.Limits(
            request: TimeAmount(self.settings.requestTimeout),
            idle: TimeAmount(self.settings.idleTimeout)
        )
        let configuration = HTTP1Channel.Configuration(
            additionalChannelHandlers: [ConnectionHandler(limits, connections)],
            httpDecoderConfiguration: .init(
                maxHeaderFieldSize: 16_384,
                maxHeaderListSize: 32_768,
                maxHeaderFieldCount: 100
            )
        )
        return HTTPServerBuilder { responder in
            let http = HTTP1Channel(responder: responder, configuration: configuration)
            return if let tls { TLSConnection(base: http, tls: tls) } else { http }
        }
    }
}
