@testable import APNSPool

/// Returns whether `body` ends within a time. It does not wait any longer, so a test fails instead of hanging if the
/// tested code hangs.
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
