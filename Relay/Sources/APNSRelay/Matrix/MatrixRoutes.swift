import APNSModel
import Crypto
import HTTPTypes
import Hummingbird
import Logging
import MatrixPush
import PushQueue
import ServiceLifecycle
import Synchronization
import WebPush

/// Matrix' Push Gateway API: homeservers push to the devices of an app, without a token of this relay.
///
/// A homeserver repeats a request that is refused, and stores nothing about single devices. So all pushes of a request are stored
/// in one transaction, and a repetition stores only what is missing.
struct MatrixRoutes: Sendable {
    /// Stands for the homeservers in routes. It cannot be the name of a caller in the settings.
    static let caller = "matrix-push"
    /// The largest body, in bytes. An event has at most 65,536.
    static let maxBodyBytes = 131_072

    let live: LiveSettings
    let dispatch: DispatchSettings
    let settings: MatrixSettings
    let queue: any PushQueue
    let quota: PushQuota
    let intake: PushIntake
    let clock: any QueueClock
    let reader: RequestBodyReader
    let ids = PushIDGenerator()
    let faults = MatrixFaults()

    var routes: [APIRoute] {
        [
            APIRoute(.post, "/_matrix/push/v1/notify", .open) { try await self.notify($0) },
            APIRoute(.get, "/_matrix/push/v1/notify", .open) { try self.discover($0) },
        ]
    }

    private func requireApps() throws(APIError) {
        guard self.live.current.hasMatrix else {
            throw APIError.notFound("The relay is no push gateway for Matrix (app.NAME.matrix.appIDs).")
        }
    }

    /// What clients that use UnifiedPush ask before they name a gateway to their homeserver.
    private func discover(_ request: APIRequest) throws(APIError) -> Response {
        try self.requireApps()
        struct Discovery: Encodable {
            struct Gateway: Encodable { var gateway = "matrix" }
            var unifiedpush = Gateway()
        }
        return .json(Discovery())
    }

    private struct RejectedJSON: Encodable {
        var rejected: [String]
    }

    private func notify(_ request: APIRequest) async throws -> Response {
        if Task.isShuttingDownGracefully { throw APIError.shuttingDown }
        try self.requireApps()
        _ = try request.query()
        guard try request.mediaType() == "application/json" else {
            throw APIError(.unsupportedMediaType, .unsupportedMediaType, "Expected the content type application/json.")
        }
        let notification = try await self.reader.withBody(of: request) { body in
            do throws(MatrixPushError) {
                return try MatrixNotification(Array(body.readableBytesView))
            } catch {
                throw APIError(.badRequest, .badJSON, error.message)
            }
        }
        let source = Base64Text.encode(OpenConnections.key(request.context.channel.remoteAddress))
        var rejected: [String] = []
        var pushes: [NewPush] = []
        var ended: [String] = []
        var wait: Duration?
        for device in notification.devices {
            switch try await self.decision(device, of: notification, from: source, &ended, request.logger) {
            case .push(let push): pushes.append(push)
            case .dead: rejected.append(device.pushkey)
            case .wait(let time): wait = max(wait ?? .zero, time)
            case .nothing: break
            }
        }
        _ = try await self.intake.store(pushes, isPartial: true)
        if let wait {
            var error = APIError.rateLimited(wait, "")
            error.message =
                "Too many notifications for a device or from this address. Those for other devices are stored; "
                + "a repetition stores nothing twice."
            throw error
        }
        // Only now: if storing had failed, the homeserver would repeat the request, and the repetition is to be told.
        for key in ended {
            do throws(QueueError) {
                try await DeadPushkeys(queue: self.queue).end(key, now: self.clock.now)
            } catch {
                // Then homeservers are told once more.
                self.intake.status.countStorageError(error)
            }
        }
        return .json(RejectedJSON(rejected: rejected))
    }

    // MARK: One device

    private enum Decision {
        case push(NewPush)
        /// The device token is certainly invalid.
        case dead
        case wait(Duration)
        /// There is nothing to send, or it can never be sent.
        case nothing
    }

    /// - Parameter ended: receives the token's key if no later request is to be told about the token.
    private func decision(
        _ device: MatrixDevice,
        of notification: MatrixNotification,
        from source: String,
        _ ended: inout [String],
        _ logger: Logger
    ) async throws(APIError) -> Decision {
        // The settings may have the app later, or again, so this is no reason to reject the pushkey: the homeserver would forget
        // it, and the device would get nothing any more until its user signs in anew. The same holds for the other faults.
        guard let (app, environment) = self.live.current.matrixApp(device.appID) else {
            self.faults.log("no setting app.NAME.matrix.appIDs names this app", of: device, logger)
            return .nothing
        }
        let token: DeviceToken
        let prepared: PreparedPush?
        do throws(MatrixPushError) {
            token = try device.token()
            prepared = try notification.push(for: device, topic: app.topic)
        } catch {
            self.faults.log(error.message, of: device, logger)
            return .nothing
        }
        guard let prepared else { return .nothing }
        let name = "\(app.name)/\(environment)/\(token.hexadecimal)"
        let rates = [
            ("s\(source)", self.settings.sourcePushesPerMinute), ("d\(name)", self.settings.pushesPerMinute),
        ]
        if let wait = self.quota.take(rates) { return .wait(wait) }
        let key = DeadPushkeys.key(token, app.name, environment)
        let entry = try await self.queue.calling { queue throws(QueueError) in
            try await DeadPushkeys(queue: queue).entry(key)
        }
        if let entry, entry.ends(pushkeyTime: device.pushkeyTime) { ended.append(key) }
        if let entry, entry.isInvalid(pushkeyTime: device.pushkeyTime) { return .dead }
        let now = self.clock.now
        return .push(
            NewPush(
                id: self.ids.next(at: now),
                route: Route(
                    app: app.name,
                    environment: environment,
                    lane: notification.isUrgent ? .interactive : .bulk,
                    caller: Self.caller
                ),
                token: token,
                push: prepared,
                notBefore: now,
                deadline: now.advanced(by: self.dispatch.defaultDeadline),
                // Counts are not repeated by a homeserver, so newer ones replace older ones.
                supersedes: notification.eventID == nil ? SupersedeKey("matrix-counts") : nil,
                // A repetition may have other counts, so the digest is that of the key itself.
                idempotency: notification.eventID.map { event in
                    let key = Array(SHA256.hash(data: Array("\(name)\u{0}\(event)".utf8)))
                    return IdempotencyKey(key: Base64Text.encode(key), digest: key)
                }
            )
        )
    }
}

/// Logs why notifications cannot be sent: each reason of an app once an hour, and at most a hundred reasons in that time. So
/// an operator finds a wrong setting, and nobody can fill the log.
final class MatrixFaults: Sendable {
    private static let limit = 100
    private static let period = Duration.seconds(3_600)

    private let seen = Mutex<(kinds: Set<String>, end: ContinuousClock.Instant)>(([], .now))

    func log(_ reason: String, of device: MatrixDevice, _ logger: Logger) {
        let app = printable(device.appID)
        let isNew = self.seen.withLock { seen in
            if seen.end < .now { seen = ([], .now + Self.period) }
            return seen.kinds.count < Self.limit && seen.kinds.insert("\(app) \(reason)").inserted
        }
        guard isNew else { return }
        logger.warning(
            "A notification of Matrix cannot be sent",
            metadata: ["app_id": "\(app)", "reason": "\(reason)"]
        )
    }
}

extension LiveSettings.Snapshot {
    /// Whether Matrix clients use any of the apps.
    var hasMatrix: Bool { self.settings.apps.contains { !$0.matrixAppIDs.isEmpty } }

    /// The app that a Matrix client names so, and its environment.
    func matrixApp(_ id: String) -> (app: RelayApp, environment: String)? {
        for app in self.settings.apps {
            if let environment = app.matrixAppIDs[id] { return (app, environment) }
        }
        return nil
    }
}
