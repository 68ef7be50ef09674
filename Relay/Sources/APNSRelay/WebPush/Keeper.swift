import Logging
import PushQueue
import ServiceLifecycle

/// A service that tends what a gateway keeps in the queue, again and again until the relay shuts down.
protocol Keeper: Service {
    /// What it tends, for the log.
    static var subject: String { get }
    var logger: Logger { get }

    /// Does what is due. Several relays may do this at the same time.
    mutating func tend() async throws(QueueError)
}

extension Keeper {
    func run() async throws {
        await cancelWhenGracefulShutdown {
            var keeper = self
            while !Task.isCancelled {
                do throws(QueueError) {
                    try await keeper.tend()
                } catch {
                    self.logger.warning(
                        "\(Self.subject) cannot be tended; trying again",
                        metadata: ["error": "\(error)"]
                    )
                }
                try? await Task.sleep(for: .seconds(2))
            }
        }
        // A service that ends before its turn counts as failed in a service group.
        try? await gracefulShutdown()
    }
}
