import Dispatch
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Waits for notifications of new pushes, on a thread and a connection of its own. A notification is only a hint that may be
/// lost.
final class Listener: Sendable {
    /// The channel of notifications.
    static let channel = "apns_due"
    /// The interval between checks whether to stop, in milliseconds.
    private static let interval: Int32 = 200

    private let settings: ConnectionSettings
    private let whenNotified: @Sendable () -> Void
    private let isStopped = Atomic(false)

    init(_ settings: ConnectionSettings, whenNotified: @escaping @Sendable () -> Void) {
        self.settings = settings
        self.whenNotified = whenNotified
    }

    func start() {
        DispatchQueue(label: "apns-relay.postgres.listener").async {
            while !self.isStopped.load(ordering: .relaxed) {
                // The dispatcher reads the queue every second anyway, so an error needs no more than another attempt.
                do { try self.listen() } catch { usleep(500_000) }
            }
        }
    }

    /// Ends the thread soon.
    func stop() { self.isStopped.store(true, ordering: .relaxed) }

    private func listen() throws {
        let connection = try self.settings.connect()
        try connection.runScript("LISTEN \(Self.channel)")
        // There may have been notifications before.
        self.whenNotified()
        while !self.isStopped.load(ordering: .relaxed) {
            var descriptor = pollfd(fd: connection.socket, events: Int16(POLLIN), revents: 0)
            guard poll(&descriptor, 1, Self.interval) > 0 else { continue }
            if try connection.takeNotifications() { self.whenNotified() }
        }
    }
}
