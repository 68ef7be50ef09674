import APNSTransport

/// Detects a wrong clock on this machine.
///
/// APNs shows a wrong clock only by refusing provider tokens. The `date` field of its responses gives the correct time.
package enum ClockSkew {
    /// The difference in seconds up to which two clocks count as equal. It includes the response's travel time.
    package static let tolerance: Int64 = 60

    /// A clause about this machine's clock, to end an error message with.
    ///
    /// - Parameters:
    ///   - dateHeader: The `date` field of a response just received.
    ///   - wallNow: Seconds since 1970 by this machine's clock.
    /// - Returns: For example "this machine's clock is 2 h ahead of APNs"; `nil` if the clocks differ by 60 s or less,
    ///   or if the field is absent or unreadable.
    package static func skewHint(dateHeader: String?, wallNow: Int64) -> String? {
        guard let dateHeader, let theirs = HTTPDate.seconds(dateHeader) else { return nil }
        let skew = wallNow.saturatingDifference(to: theirs)
        guard skew.magnitude > UInt64(self.tolerance) else { return nil }
        return "this machine's clock is \(self.words(skew.magnitude)) \(skew > 0 ? "ahead of" : "behind") APNs"
    }

    private static func words(_ seconds: UInt64) -> String {
        switch seconds {
        case ..<120: "\(seconds) s"
        case ..<7_170: "\((seconds + 30) / 60) min"
        case ..<172_800: "\((seconds + 1_800) / 3_600) h"
        default: "\((seconds + 43_200) / 86_400) days"
        }
    }
}
