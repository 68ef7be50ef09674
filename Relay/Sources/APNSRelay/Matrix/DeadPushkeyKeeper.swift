import APNSModel
import Logging
import PushQueue
import WebPush

/// Remembers the device tokens that APNs has declared invalid, of the apps that Matrix clients use.
struct DeadPushkeyKeeper: Keeper {
    static let subject = "The dead pushkeys of Matrix"
    private static let cursorKey = "matrix/cursor"
    /// How often tokens that were remembered for too long are looked for.
    private static let pruning = Duration.seconds(3_600)

    let live: LiveSettings
    let queue: any PushQueue
    /// Opens the tokens of Web Push; nil without that gateway.
    let keys: DeviceTokenKeys?
    let clock: any QueueClock
    let logger: Logger
    private var nextPruning = ContinuousClock.now

    init(
        live: LiveSettings,
        queue: any PushQueue,
        keys: DeviceTokenKeys?,
        clock: any QueueClock,
        logger: Logger
    ) {
        self.live = live
        self.queue = queue
        self.keys = keys
        self.clock = clock
        self.logger = logger
    }

    mutating func tend() async throws(QueueError) {
        guard self.live.current.hasMatrix else { return }
        let dead = DeadPushkeys(queue: self.queue)
        try await InvalidTokenReader(queue: self.queue, cursorKey: Self.cursorKey).read { push throws(QueueError) in
            let route = push.route
            guard let since = push.outcome?.invalidation?.millisecondsSince1970,
                self.live.apps[route.app]?.matrixAppIDs.isEmpty == false,
                let token = QueuedDeviceToken.open(push.token, of: route, self.keys)
            else { return }
            let now = self.clock.now
            let entry = DeadPushkeys.Entry(since: since, refused: push.settledAt ?? now, stored: now)
            try await dead.add(entry, for: DeadPushkeys.key(token, route.app, route.environment))
        }
        if ContinuousClock.now >= self.nextPruning {
            try await dead.prune(now: self.clock.expiry)
            self.nextPruning = .now + Self.pruning
        }
    }
}
