#if canImport(CryptoKit) || Sealing
    #if canImport(FoundationEssentials)
        import FoundationEssentials
    #else
        import Foundation
    #endif

    /// A time in whole milliseconds since 1970, in the format of messages: 48 bits, which last until the year 10889.
    ///
    /// Every `Date` can be converted; values outside the range are clamped, because neither a wrong clock nor a stored
    /// value may trap.
    struct Milliseconds: Sendable, Hashable, Comparable {
        static let limit: Int64 = 1 << 48 - 1

        let count: Int64

        init(count: Int64) {
            self.count = min(max(count, 0), Self.limit)
        }

        init(_ date: Date) {
            let milliseconds = (date.timeIntervalSince1970 * 1_000).rounded()
            self.init(count: milliseconds.isNaN ? 0 : Int64(min(max(milliseconds, 0), Double(Self.limit))))
        }

        var date: Date { Date(timeIntervalSince1970: Double(self.count) / 1_000) }

        func advanced(by other: Int64) -> Milliseconds {
            let (sum, overflow) = self.count.addingReportingOverflow(other)
            return Milliseconds(count: overflow ? (other < 0 ? 0 : Self.limit) : sum)
        }

        static func < (left: Milliseconds, right: Milliseconds) -> Bool { left.count < right.count }
    }

    extension Duration {
        /// The duration in whole milliseconds, at least 0 and at most the limit of a message's time.
        var wholeMilliseconds: Int64 {
            let (seconds, attoseconds) = self.components
            guard seconds >= 0, attoseconds >= 0 else { return 0 }
            guard seconds < Milliseconds.limit / 1_000 else { return Milliseconds.limit }
            return seconds * 1_000 + attoseconds / 1_000_000_000_000_000
        }
    }
#endif
