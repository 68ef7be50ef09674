/// A day of the Gregorian calendar, in UTC.
///
/// The arithmetic is Howard Hinnant's ("chrono-compatible low-level date algorithms"): years are counted from March, so
/// that a leap day is the last of its year.
package struct CivilDate: Sendable, Hashable, CustomStringConvertible {
    package var year: Int64
    package var month: Int64
    package var day: Int64

    package init(year: Int64, month: Int64, day: Int64) {
        self.year = year
        self.month = month
        self.day = day
    }

    /// - Parameter seconds: Seconds since 1970.
    package init(secondsSince1970 seconds: Int64) {
        let shifted = Self.quotient(seconds, 86_400) + Self.shift
        let era = Self.quotient(shifted, 146_097)
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        self.day = dayOfYear - (153 * marchMonth + 2) / 5 + 1
        self.month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        self.year = yearOfEra + era * 400 + (self.month <= 2 ? 1 : 0)
    }

    /// The days since 1 January 1970, for years from 1.
    package var daysSince1970: Int64 {
        let marchYear = self.month > 2 ? self.year : self.year - 1
        let marchMonth = self.month > 2 ? self.month - 3 : self.month + 9
        let dayOfYear = (153 * marchMonth + 2) / 5 + self.day - 1
        return marchYear * 365 + marchYear / 4 - marchYear / 100 + marchYear / 400 + dayOfYear - Self.shift
    }

    /// For example `2027-03-01`.
    package var description: String { "\(self.year)-\(Self.two(self.month))-\(Self.two(self.day))" }

    /// The days from 1 March 0000 to 1 January 1970.
    private static let shift: Int64 = 719_468

    /// Two digits.
    package static func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }

    /// Division that rounds down.
    package static func quotient(_ number: Int64, _ divisor: Int64) -> Int64 {
        number / divisor - (number % divisor < 0 ? 1 : 0)
    }
}
