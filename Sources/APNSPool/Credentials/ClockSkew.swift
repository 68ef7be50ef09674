/// Detects a wrong clock on this machine.
///
/// APNs shows a wrong clock only by refusing provider tokens. The `date` field of its responses gives the correct time.
package enum ClockSkew {
    /// The difference in seconds up to which two clocks count as equal. It includes the response's travel time.
    package static let tolerance: Int64 = 60

    /// A clause about this machine's clock, to end an error message with.
    ///
    /// - Parameters:
    ///   - dateHeader: The `date` field of a response just received (IMF-fixdate, RFC 9110, section 5.6.7).
    ///   - wallNow: Seconds since 1970 by this machine's clock.
    /// - Returns: For example "this machine's clock is 2 h ahead of APNs"; `nil` if the clocks differ by 60 s or less,
    ///   or if the field is absent or unreadable.
    package static func skewHint(dateHeader: String?, wallNow: Int64) -> String? {
        guard let dateHeader, let theirs = self.seconds(imfFixdate: dateHeader) else { return nil }
        let (skew, overflow) = wallNow.subtractingReportingOverflow(theirs)
        guard overflow || skew.magnitude > UInt64(self.tolerance) else { return nil }
        let isAhead = wallNow > theirs
        let amount = overflow ? "an age" : self.words(skew.magnitude)
        return "this machine's clock is \(amount) \(isAhead ? "ahead of" : "behind") APNs"
    }

    /// Converts a date in the form `Sun, 06 Nov 1994 08:49:37 GMT` to seconds since 1970; `nil` for any other text.
    package static func seconds(imfFixdate text: String) -> Int64? {
        let bytes = Array(text.utf8)
        guard bytes.count == 29, Array(bytes[25...]) == Array(" GMT".utf8), bytes[3] == UInt8(ascii: ","),
            [4, 7, 11, 16].allSatisfy({ bytes[$0] == UInt8(ascii: " ") }),
            bytes[19] == UInt8(ascii: ":"), bytes[22] == UInt8(ascii: ":"),
            self.weekdays.contains(Array(bytes[0..<3])),
            let month = self.months.firstIndex(of: Array(bytes[8..<11])),
            let day = self.number(bytes[5..<7]), let year = self.number(bytes[12..<16]),
            let hour = self.number(bytes[17..<19]), let minute = self.number(bytes[20..<22]),
            let second = self.number(bytes[23..<25]),
            (1...31).contains(day), year >= 1970, hour < 24, minute < 60, second <= 60
        else { return nil }
        return self.days(year: year, month: Int64(month) + 1, day: day) * 86_400 + hour * 3_600 + minute * 60 + second
    }

    private static let weekdays = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].map { Array($0.utf8) }
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ].map { Array($0.utf8) }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int64? {
        var value: Int64 = 0
        for digit in digits {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
            value = value * 10 + Int64(digit - UInt8(ascii: "0"))
        }
        return value
    }

    /// Days since 1 January 1970 in the Gregorian calendar. Years are counted from March, so that a leap day is last.
    private static func days(year: Int64, month: Int64, day: Int64) -> Int64 {
        let marchYear = month > 2 ? year : year - 1
        let marchMonth = month > 2 ? month - 3 : month + 9
        let dayOfYear = (153 * marchMonth + 2) / 5 + day - 1
        return marchYear * 365 + marchYear / 4 - marchYear / 100 + marchYear / 400 + dayOfYear - 719_468
    }

    private static func words(_ seconds: UInt64) -> String {
        switch seconds {
        case ..<120: "\(seconds) s"
        case ..<7_200: "\((seconds + 30) / 60) min"
        case ..<172_800: "\((seconds + 1_800) / 3_600) h"
        default: "\((seconds + 43_200) / 86_400) days"
        }
    }
}
