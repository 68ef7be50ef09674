import Dispatch
import PushQueue
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Looks for pushes that other programs have stored, on a thread and a connection of its own.
///
/// Their transactions do not notify the relays: a transaction with NOTIFY takes a lock of the whole server before its commit,
/// so that all of them would commit one after the other.
final class IntakeWatch: Sendable {
    /// The pause between two looks once a program has stored a push, and before that.
    static let interval = (inUse: Duration.milliseconds(100), unused: Duration.seconds(1))

    private let settings: ConnectionSettings
    private let now: @Sendable () -> Int64
    private let whenFound: @Sendable () -> Void
    private let isStopped = Atomic(false)

    /// - Parameters:
    ///   - now: the time of day, in milliseconds.
    ///   - whenFound: called when another push than before is the first due one of a program.
    init(
        _ settings: ConnectionSettings,
        now: @escaping @Sendable () -> Int64,
        whenFound: @escaping @Sendable () -> Void
    ) {
        self.settings = settings
        self.now = now
        self.whenFound = whenFound
    }

    func start() {
        DispatchQueue(label: "apns-relay.postgres.intake").async {
            while !self.isStopped.load(ordering: .relaxed) {
                // The dispatcher reads the queue every second anyway, so an error needs no more than another attempt.
                do { try self.watch() } catch { self.wait(.milliseconds(500)) }
            }
        }
    }

    /// Ends the thread soon.
    func stop() { self.isStopped.store(true, ordering: .relaxed) }

    private func watch() throws {
        let connection = try self.settings.connect()
        var heads: [Int64: Int64] = [:]
        while !self.isStopped.load(ordering: .relaxed) {
            var parameters = Parameters()
            parameters.add(self.now())
            let deadline = ContinuousClock.now.advanced(by: .seconds(30))
            let rows = try connection.run("SELECT * FROM apns.intake_heads($1)", parameters, until: deadline)
            var found: [Int64: Int64] = [:]
            for index in 0..<rows.count { found[rows[index].int64("route")] = rows[index].optionalInt64("position") }
            if found.contains(where: { heads[$0.key] != $0.value }) { self.whenFound() }
            heads = found
            self.wait(rows.count > 0 ? Self.interval.inUse : Self.interval.unused)
        }
    }

    private func wait(_ duration: Duration) {
        var left = duration.milliseconds
        while left > 0, !self.isStopped.load(ordering: .relaxed) {
            usleep(UInt32(min(left, 100)) * 1_000)
            left -= 100
        }
    }
}
