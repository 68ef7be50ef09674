import APNSBasics

/// The time format of HTTP's `date` header: `Sun, 06 Nov 1994 08:49:37 GMT` (IMF-fixdate, RFC 9110, section 5.6.7).
package enum HTTPDate {
    /// The days of the week, from 1 January 1970.
    private static let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// - Parameter seconds: since 1970. Times outside the years 1 to 9999 are clamped.
    package static func text(_ seconds: Int64) -> String {
        let seconds = min(max(seconds, -62_135_596_800), 253_402_300_799)
        let day = CivilDate.quotient(seconds, 86_400)
        let time = seconds - day * 86_400
        let date = CivilDate(secondsSince1970: seconds)
        let weekday = Self.weekdays[Int(day - CivilDate.quotient(day, 7) * 7)]
        let year = String(repeating: "0", count: 4 - "\(date.year)".count) + "\(date.year)"
        let two = CivilDate.two
        return "\(weekday), \(two(date.day)) \(Self.months[Int(date.month) - 1]) \(year) "
            + "\(two(time / 3600)):\(two(time / 60 % 60)):\(two(time % 60)) GMT"
    }

    /// Converts a date in this format to seconds since 1970; `nil` for any other text, and for years before 1970.
    package static func seconds(_ text: String) -> Int64? {
        let bytes = Array(text.utf8)
        guard bytes.count == 29, Array(bytes[25...]) == Array(" GMT".utf8), bytes[3] == UInt8(ascii: ","),
            [4, 7, 11, 16].allSatisfy({ bytes[$0] == UInt8(ascii: " ") }),
            bytes[19] == UInt8(ascii: ":"), bytes[22] == UInt8(ascii: ":"),
            self.weekdays.contains(where: { $0.utf8.elementsEqual(bytes[0..<3]) }),
            let month = self.months.firstIndex(where: { $0.utf8.elementsEqual(bytes[8..<11]) }),
            let day = self.number(bytes[5..<7]), let year = self.number(bytes[12..<16]),
            let hour = self.number(bytes[17..<19]), let minute = self.number(bytes[20..<22]),
            let second = self.number(bytes[23..<25]),
            (1...31).contains(day), year >= 1970, hour < 24, minute < 60, second <= 60
        else { return nil }
        let date = CivilDate(year: year, month: Int64(month) + 1, day: day)
        return date.daysSince1970 * 86_400 + hour * 3_600 + minute * 60 + second
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int64? {
        guard digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
        return digits.reduce(0) { $0 * 10 + Int64($1 - UInt8(ascii: "0")) }
    }
}
