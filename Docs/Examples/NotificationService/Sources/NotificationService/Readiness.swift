import ServiceLifecycle
import Synchronization

/// Whether a load balancer should send requests here: not before the start, and not during the drain.
///
/// It does not ask APNs. When APNs cannot be reached, no replica of this service can reach it, and taking all of them out
/// of the load balancer turns a response that says what is wrong into none at all.
final class Readiness: Service {
    private let isOpen = Atomic<Bool>(false)
    private let drainDelay: Duration

    init(drainDelay: Duration) {
        self.drainDelay = drainDelay
    }

    var isReady: Bool { self.isOpen.load(ordering: .relaxed) }

    func run() async throws {
        self.isOpen.store(true, ordering: .relaxed)
        try? await gracefulShutdown()
        self.isOpen.store(false, ordering: .relaxed)
        try? await Task.sleep(for: self.drainDelay)
    }
}
