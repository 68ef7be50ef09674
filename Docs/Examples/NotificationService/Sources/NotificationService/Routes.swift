import APNSPool
import Hummingbird

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

func makeRouter(
    client: APNSClient,
    readiness: Readiness,
    metrics: PrometheusText,
    settings: Settings
) -> Router<BasicRequestContext> {
    let router = Router()
    router.post("notifications") { request, context in
        let body: NotificationRequest
        do {
            body = try await request.decode(as: NotificationRequest.self, context: context)
        } catch let error as HTTPError {
            throw error
        } catch {
            return try json(["error": "\(error)"], status: .badRequest)
        }
        // The client's own deadline for those that name none.
        let deadline = min(body.deadline ?? settings.maximumDeadline, settings.maximumDeadline)
        // A caller that hangs up does not cancel its push: it may be on its way already.
        let outcome = await client.deliver(
            body.notification,
            to: body.deviceToken,
            options: DeliveryOptions(deadline: deadline, apnsID: body.id)
        )
        return try json(outcome, status: status(of: outcome), retryAfter: outcome.retryAfter)
    }
    // For a liveness probe, too: a restart mends nothing that the client does not mend by itself.
    router.get("live") { _, _ in HTTPResponse.Status.ok }
    router.get("ready") { _, _ in readiness.isReady ? HTTPResponse.Status.ok : .serviceUnavailable }
    // For dashboards and people. 200 whatever it says, so that nobody takes it for a probe.
    router.get("health/apns") { _, _ in
        try json(APNSHealthReport(health: await client.health, status: await client.status), status: .ok)
    }
    router.get("metrics") { _, _ in
        Response(
            status: .ok,
            headers: [.contentType: PrometheusText.contentType],
            body: .init(byteBuffer: ByteBuffer(string: metrics.text()))
        )
    }
    return router
}

/// The outcome for those who look at nothing but the status. The body says more: the outcome's coded form.
func status(of outcome: PushOutcome) -> HTTPResponse.Status {
    guard let error = outcome.error else { return .ok }
    // Too much for this one device.
    if error.reason == .tooManyRequests { return .tooManyRequests }
    switch (error.advice, error.certainty) {
    // It may have arrived: the caller decides whether it may arrive twice.
    case (_, .unknown): return .gatewayTimeout
    case (.removeToken, _): return .gone
    case (.checkEnvironment, .rejected), (.fixRequest, .rejected): return .unprocessableContent
    case (.fixRequest, _): return .badRequest
    // Ours to mend, not the caller's.
    case (.fixCredential, _), (.checkEnvironment, _): return .badGateway
    case (.wait, _), (.resend, _): return error.code == .deadlineExceeded ? .gatewayTimeout : .serviceUnavailable
    // Too late: it expired.
    default: return .gatewayTimeout
    }
}

/// The body of `GET /health/apns`.
struct APNSHealthReport: Encodable {
    var health: String
    var cause: String?
    var message: String?
    var pushesInFlight: Int
    var queued: Int
    var streamsInUse: Int
    var streams: Int
    var resends: Int
    var restarts: Int
    var invalidTokenShare: Double?

    init(health: APNSHealth, status: APNSClientStatus) {
        self.health = health.name
        self.cause = health.cause?.code.rawValue
        self.message = health.cause?.message
        self.pushesInFlight = status.pushesInFlight
        self.queued = status.pool.queueDepth
        self.streamsInUse = status.pool.leased
        self.streams = status.pool.capacity
        self.resends = status.resends
        self.restarts = status.restarts
        self.invalidTokenShare = status.invalidTokenShare
    }
}

private func json(
    _ value: some Encodable,
    status: HTTPResponse.Status,
    retryAfter: Duration? = nil
) throws -> Response {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    var headers: HTTPFields = [.contentType: "application/json"]
    // Whole seconds, rounded up; no sense in it where the same push would fail again.
    if let retryAfter, retryAfter > .zero, [.serviceUnavailable, .badGateway, .tooManyRequests].contains(status) {
        let (seconds, attoseconds) = retryAfter.components
        headers[.retryAfter] = "\(attoseconds > 0 ? seconds + 1 : seconds)"
    }
    let bytes = try encoder.encode(value)
    return Response(status: status, headers: headers, body: .init(byteBuffer: ByteBuffer(bytes: bytes)))
}
