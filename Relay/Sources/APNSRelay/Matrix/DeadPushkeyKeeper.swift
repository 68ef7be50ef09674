import APNSModel
import Logging
import PushQueue
import ServiceLifecycle
import WebPush

/// Remembers the device tokens that APNs has declared invalid, of the apps that Matrix clients use.
struct DeadPushkeyKeeper: Service {
    private static let cursorKey = "matrix/cursor"
    /// How often tokens that were remembered for too long are looked for.
    private static let pruning = Duration.seconds(3_600)

    let live: LiveSettings
    let queue: any PushQueue
    /// Opens the tokens of Web Push; nil without that gateway.
    let keys: DeviceTokenKeys?
    let clock: any QueueClock
    let logger: Logger
    /// How often the dead tokens are read.
    var interval = Duration.seconds(2)

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var nextPruning = ContinuousClock.now
            while !Task.isCancelled {
                do throws(QueueError) {
                    try await self.tend()
                    if self.live.current.hasMatrix, ContinuousClock.now >= nextPruning {
                        try await DeadPushkeys(queue: self.queue).prune(now: self.clock.expiry)
                        nextPruning = .now + Self.pruning
                    }
                } catch {
                    self.logger.warning(
                        "The dead pushkeys of Matrix cannot be read; trying again",
                        metadata: ["error": "\(error)"]
                    )
                }
                try? await Task.sleep(for: self.interval)
            }
        }
        // A service that ends before its turn counts as failed in a service group.
        try? await gracefulShutdown()
    }

    /// Reads the dead tokens from the stored position on. Several relays may do this at the same time.
    func tend() async throws(QueueError) {
        guard self.live.current.hasMatrix else { return }
        let dead = DeadPushkeys(queue: self.queue)
        try await InvalidTokenReader(queue: self.queue, cursorKey: Self.cursorKey).read { push throws(QueueError) in
            let route = push.route
            guard let since = push.outcome?.invalidation?.millisecondsSince1970,
                self.live.apps[route.app]?.matrixAppIDs.isEmpty == false,
                let token = QueuedDeviceToken.open(push.token, of: route, self.keys)
            else { return }
            try await dead.add(
                token,
                route.app,
                route.environment,
                since: since,
                now: self.clock.now
            )
        }
    }
}
