import TestSupport

@testable import APNSPool

/// Returns whether `body` ends within `Patience.limit`. It does not wait any longer, so a test fails instead of hanging if
/// the tested code hangs.
///
/// - Parameters:
///   - clock: Advances by a tenth of a second every millisecond, if `body` needs time to pass.
///   - clients: The clock stands still while one of them waits for its server, however long a busy machine takes.
func ends(
    advancing clock: ManualClock? = nil,
    for clients: [APNSClient] = [],
    _ body: @escaping @Sendable () async -> Void
) async -> Bool {
    let ended = Latch()
    Task { @concurrent in
        await body()
        ended.open()
    }
    return await eventually {
        if let clock, await !waitsForServer(clients) { clock.advance(by: .milliseconds(100)) }
        return ended.isOpen
    }
}

/// Whether one of the clients opens a connection or has a push on one: that takes real time.
func waitsForServer(_ clients: [APNSClient]) async -> Bool {
    for client in clients {
        let workers = await client.status.pool.workers
        if workers.contains(where: { $0.state == .connecting || $0.leased + $0.leasedOfEarlierConnections > 0 }) {
            return true
        }
    }
    return false
}
