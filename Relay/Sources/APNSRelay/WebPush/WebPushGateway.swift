import AppAttest
import NIOCore
import PushQueue
import WebPush

/// The endpoints of the gateway for Web Push.
struct WebPushGateway: Sendable {
    private static let maxSubscriptionBytes = 65_536

    let routes: [APIRoute]

    /// - Parameters:
    ///   - live: the apps and the callers. The gateway's own settings are read once, here.
    ///   - queue: stores the subscriptions.
    ///   - clock: the time of day and the time for leases.
    ///   - intake: stores the pushes.
    ///   - budget: the limit on the size of all bodies that are being read.
    /// - Returns: nil if the settings have no gateway.
    init?(
        live: LiveSettings,
        queue: any PushQueue,
        clock: any QueueClock,
        intake: PushIntake,
        budget: BufferBudget
    ) {
        let settings = live.current.settings
        guard let webPush = settings.webPush, let keys = webPush.deviceTokenKeys else {
            return nil
        }
        let store = SubscriptionStore(queue: queue)
        let reader = RequestBodyReader(limit: Self.maxSubscriptionBytes, budget: budget)
        var verifier: any RegistrationVerifier = CallerRegistration()
        var appAttest: AppAttestRegistration?
        switch webPush.registration {
        case .token: break
        case .open: verifier = OpenRegistration()
        case .appAttest(let attestation):
            let registration = AppAttestRegistration(
                live: live,
                verifier: attestation,
                challenges: AppAttestChallenges(key: webPush.key, old: webPush.oldKeys),
                queue: queue,
                clock: clock
            )
            verifier = registration
            appAttest = registration
        }
        let subscriptions = SubscriptionRoutes(
            live: live,
            settings: webPush,
            store: store,
            keys: keys,
            verifier: verifier,
            clock: clock,
            reader: reader
        )
        let attestations = AppAttestRoutes(live: live, registration: appAttest, reader: reader)
        let pushes = WebPushRoutes(
            live: live,
            settings: webPush,
            dispatch: settings.dispatch,
            store: store,
            keys: keys,
            verifier: VAPIDVerifier(origins: Set(webPush.origins)),
            quota: PushQuota(clock: clock),
            keptSpace: KeptSpace(),
            intake: intake,
            clock: clock,
            reader: RequestBodyReader(limit: WebPushRequest.maxBodyBytes, budget: budget)
        )
        self.routes = subscriptions.routes + attestations.routes + pushes.routes
    }
}
