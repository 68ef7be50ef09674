/// A point in time, in whole milliseconds since 1970.
public struct QueueTime: Sendable, Hashable, Codable, Comparable, CustomStringConvertible {
    public var millisecondsSince1970: Int64

    public init(millisecondsSince1970: Int64) {
        self.millisecondsSince1970 = millisecondsSince1970
    }

    /// Clamped to the range of `Int64` milliseconds.
    public init(secondsSince1970 seconds: Int64) {
        let (milliseconds, overflow) = seconds.multipliedReportingOverflow(by: 1_000)
        self.millisecondsSince1970 = overflow ? (seconds < 0 ? .min : .max) : milliseconds
    }

    /// This time plus a duration, in whole milliseconds. Clamped to the range of `Int64`.
    public func advanced(by duration: Duration) -> QueueTime {
        let (seconds, attoseconds) = duration.components
        let (whole, isHuge) = seconds.multipliedReportingOverflow(by: 1_000)
        let (milliseconds, isLarge) = whole.addingReportingOverflow(attoseconds / 1_000_000_000_000_000)
        let (sum, isTooFar) = self.millisecondsSince1970.addingReportingOverflow(milliseconds)
        let isClamped = isHuge || isLarge || isTooFar
        return QueueTime(millisecondsSince1970: isClamped ? (seconds < 0 ? .min : .max) : sum)
    }

    /// The time from this one to another; negative if the other is earlier.
    public func duration(to other: QueueTime) -> Duration {
        let (difference, overflow) = other.millisecondsSince1970
            .subtractingReportingOverflow(self.millisecondsSince1970)
        return .milliseconds(overflow ? (self < other ? .max : .min) : difference)
    }

    public static func < (left: QueueTime, right: QueueTime) -> Bool {
        left.millisecondsSince1970 < right.millisecondsSince1970
    }

    public var description: String { "\(self.millisecondsSince1970) ms" }
}

extension QueueTime {
    /// The time in seconds since 1970, with fractions down to milliseconds. The API reports times in this form.
    package var seconds: Double { Double(self.millisecondsSince1970) / 1_000 }
}
