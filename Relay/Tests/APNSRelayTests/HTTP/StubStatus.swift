import PushQueue
import Synchronization

@testable import APNSRelay

/// The rest of the relay, as tests set it.
final class StubStatus: RelayStatus {
    struct State {
        var routes: [RouteStatus] = []
        var totals = RelayTotals()
        var webhooks: [WebhookStatus] = []
        var notReady: String?
        var problems: [DeliveryProblem] = []
        var history: [DeliveryWatch.Sample] = []
        var signals = 0
        var members: [FleetMember] = []
        var settings: [[UInt8]] = []
        var storageErrors: [QueueError] = []
        var clockJump: Duration?
    }

    let state = Mutex(State())

    func routes() async -> [RouteStatus] { self.state.withLock { $0.routes } }
    var totals: RelayTotals { self.state.withLock { $0.totals } }
    func webhooks() async -> [WebhookStatus] { self.state.withLock { $0.webhooks } }
    func problems() -> [DeliveryProblem] { self.state.withLock { $0.problems } }
    var history: [DeliveryWatch.Sample] { self.state.withLock { $0.history } }
    func notReady() async -> String? { self.state.withLock { $0.notReady } }
    func signal() { self.state.withLock { $0.signals += 1 } }

    func members() -> [FleetMember] { self.state.withLock { $0.members } }

    func clockJump() -> Duration? { self.state.withLock { $0.clockJump } }
    func confirmClock() async throws(QueueError) { self.state.withLock { $0.clockJump = nil } }

    func didStore(_ settings: [UInt8]) { self.state.withLock { $0.settings.append(settings) } }

    func countStorageError(_ error: QueueError) { self.state.withLock { $0.storageErrors.append(error) } }

    func count(queued: [Route: Int], duplicates: [Route: Int]) {
        self.state.withLock { state in
            state.totals.queued += queued.values.reduce(0, +)
            state.totals.duplicates += duplicates.values.reduce(0, +)
        }
    }

    func skipWebhookRequest(_ webhook: String, _ id: String) async throws(QueueError) -> Int? {
        self.state.withLock { state in
            guard let index = state.webhooks.firstIndex(where: { $0.name == webhook && $0.request?.id == id }) else {
                return nil
            }
            defer { state.webhooks[index].request = nil }
            return state.webhooks[index].request?.outcomes
        }
    }
}
