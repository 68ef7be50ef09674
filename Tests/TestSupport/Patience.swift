package import APNSTransport
import NIOCore

/// How long tests wait.
public enum Patience {
    /// The longest time that a test waits for anything that must happen. It only ends tests that have failed, so it is
    /// longer than any pause that a busy machine imposes on a process.
    public static let limit = Duration.seconds(120)
    /// The limit in seconds, for programs and clocks that take a number.
    public static let seconds = Int(limit.components.seconds)
}

/// Evaluates a condition every millisecond until it is true, for at most `Patience.limit`. The pauses leave the cores of a
/// small machine to the tested code.
///
/// - Returns: Whether the condition became true. False also if the task was cancelled first.
public func eventually(_ isMet: () async throws -> Bool) async rethrows -> Bool {
    let clock = ContinuousClock()
    let end = clock.now.advanced(by: Patience.limit)
    while try await !isMet() {
        guard clock.now < end, !Task.isCancelled else { return false }
        try? await clock.sleep(for: .milliseconds(1))
    }
    return true
}

extension PathCheck.Limits {
    /// Limits for a connection whose PINGs a test does not need: no pause of the process is long enough for one.
    package static var patient: PathCheck.Limits {
        var limits = PathCheck.Limits()
        limits.idle = .minutes(10)
        limits.busy = .minutes(10)
        limits.acknowledgement = .minutes(10)
        limits.trust = .minutes(10)
        limits.check = .minutes(10)
        return limits
    }
}
