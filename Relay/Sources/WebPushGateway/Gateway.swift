package import APNSModel
import CWebPushGatewayFiles
package import Logging
package import PushQueue

/// The gateway for Web Push: its endpoints, and what it does by itself.
package struct Gateway: Sendable {
    package let routes: [GatewayRoute]
    private let keeper: SubscriptionKeeper

    /// - Parameters:
    ///   - settings: the gateway's settings.
    ///   - queue: stores the subscriptions.
    ///   - clock: the time of day and the time for leases.
    ///   - maxDeadline: how far in the future the deadline of a push may be.
    ///   - host: the server in which it runs.
    ///   - logger: the logger for operators. It never gets device tokens.
    /// - Returns: nil if a key of the settings does not have 32 bytes.
    package init?(
        _ settings: WebPushSettings,
        queue: any PushQueue,
        clock: any QueueClock,
        maxDeadline: Duration,
        host: any GatewayHost,
        logger: Logger
    ) {
        guard let keys = settings.deviceTokenKeys else { return nil }
        let store = SubscriptionStore(queue: queue)
        var verifier: any RegistrationVerifier = CallerRegistration()
        var appAttest: AppAttestRegistration?
        switch settings.registration {
        case .token: break
        case .open: verifier = OpenRegistration()
        case .appAttest(let attestation):
            let registration = AppAttestRegistration(
                host: host,
                verifier: attestation,
                challenges: AppAttestChallenges(key: settings.key, old: settings.oldKeys),
                queue: queue,
                clock: clock
            )
            verifier = registration
            appAttest = registration
        }
        let subscriptions = SubscriptionRoutes(
            host: host,
            settings: settings,
            store: store,
            keys: keys,
            verifier: verifier,
            clock: clock
        )
        let pushes = WebPushRoutes(
            host: host,
            settings: settings,
            maxDeadline: maxDeadline,
            store: store,
            keys: keys,
            verifier: VAPIDVerifier(origins: Set(settings.origins)),
            keptSpace: KeptSpace(),
            clock: clock
        )
        self.routes =
            subscriptions.routes + AppAttestRoutes(host: host, registration: appAttest).routes + pushes.routes
        self.keeper = SubscriptionKeeper(store: store, keys: keys, clock: clock, logger: logger)
    }

    /// Tends the subscriptions until the task is cancelled.
    package func run() async { await self.keeper.run() }

    /// The device token of a push; nil if it is encrypted and cannot be decrypted.
    ///
    /// - Parameters:
    ///   - token: the token as it is stored.
    ///   - route: the push's route. Only the gateway's own pushes have encrypted tokens.
    ///   - keys: the keys of the settings; nil if there is no gateway.
    package static func deviceToken(_ token: DeviceToken, of route: Route, _ keys: DeviceTokenKeys?) -> DeviceToken? {
        QueuedDeviceToken.open(token, of: route, keys)
    }

    /// The gateway's part of the OpenAPI document: paths, and components that only they use.
    package static let openAPI: String = {
        var count = 0
        let bytes = apns_web_push_openapi(&count)
        return String(decoding: UnsafeBufferPointer(start: bytes, count: count), as: UTF8.self)
    }()
}
