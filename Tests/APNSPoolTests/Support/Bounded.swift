@testable import APNSPool

/// Whether `body` ends within a time. It is not waited for any longer, so that a test fails, and does not hang, when
/// something under test hangs.
func ends(within time: Duration = .seconds(15), _ body: @escaping @Sendable () async -> Void) async -> Bool {
    let ended = Latch()
    Task { @concurrent in
        await body()
        ended.open()
    }
    let clock = ContinuousClock()
    let limit = clock.now.advanced(by: time)
    while !ended.isOpen, clock.now < limit, !Task.isCancelled { try? await clock.sleep(for: .milliseconds(1)) }
    return ended.isOpen
}
