import TestSupport

@testable import APNSPool

/// Returns whether `body` ends within `Patience.limit`. It does not wait any longer, so a test fails instead of hanging if
/// the tested code hangs.
///
/// - Parameter clock: Advances by ten milliseconds every millisecond, if `body` needs time to pass.
func ends(advancing clock: ManualClock? = nil, _ body: @escaping @Sendable () async -> Void) async -> Bool {
    let ended = Latch()
    Task { @concurrent in
        await body()
        ended.open()
    }
    return await eventually {
        clock?.advance(by: .milliseconds(10))
        return ended.isOpen
    }
}
