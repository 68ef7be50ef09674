import APNSPool
import ServiceLifecycle

/// Sends the stored announcements, one after another.
struct AnnouncementService: Service {
    let sender: any PushSender
    let store: DeviceStore

    func run() async throws {
        while !Task.isShuttingDownGracefully {
            for (id, title) in try await self.store.unfinishedAnnouncements() {
                try await self.send(id, title: title)
            }
            // Recipients whose pushes can be resent wait for the next round.
            let isFinished = try await self.store.unfinishedAnnouncements().isEmpty
            try? await cancelWhenGracefulShutdown { try await Task.sleep(for: .seconds(isFinished ? 1 : 30)) }
        }
    }

    /// Sends an announcement to its recipients without an outcome. During a graceful shutdown, the loop pulls no further
    /// recipient, and ends when the pushes in flight have their outcomes.
    func send(_ id: Int64, title: String) async throws {
        let notification = PushNotification(topic: topic, alert: Alert(title: title))
        let recipients = try await self.store.recipients(of: id)
        for await delivery in self.sender.deliveries(of: notification, to: recipients) {
            switch delivery.outcome.advice {
            case .resend, .wait, .checkEnvironment, .fixCredential: continue
            default: try await self.store.settle(delivery.outcome, of: delivery.element, in: id)
            }
        }
    }
}
