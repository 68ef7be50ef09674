#if canImport(CryptoKit) || Sealing
    #if canImport(FoundationEssentials)
        public import FoundationEssentials
    #else
        public import Foundation
    #endif

    /// Admits each message once, and none whose age makes it doubtful. A value: the app stores it, coded, where its
    /// extension finds it again.
    ///
    /// Messages are told apart by their nonce and judged by the time that was sealed with them, so the server keeps no
    /// counter. What was admitted is remembered for the span, up to the capacity; what is forgotten raises a floor, below
    /// which nothing is admitted any more. So no message is ever admitted twice, whatever the device's clock says and
    /// however many arrive. Where a choice must be made, a message that was never seen is refused.
    public struct ReplayWindow: Sendable, Hashable {
        /// How old a message may be: 31 days unless said otherwise, since APNs stores a push for up to 30.
        public static let defaultSpan = Duration.seconds(31 * 86_400)
        /// How far the server's clock may be ahead of the device's: a day unless said otherwise, since users set clocks.
        public static let defaultTolerance = Duration.seconds(86_400)
        /// How many messages are remembered unless said otherwise. Coded they take about 40 bytes each.
        public static let defaultCapacity = 1_024

        struct Seen: Sendable, Hashable, Codable {
            /// Milliseconds since 1970.
            var time: Int64
            var id: SealedMessageID
        }

        private let span: Int64
        private let tolerance: Int64
        private let capacity: Int
        /// By time, oldest first.
        private var seen: [Seen] = []
        /// Every message that was admitted is in `seen` or older than this.
        private var floor: Int64

        /// - Parameters:
        ///   - span: how old a message may be, to the millisecond.
        ///   - tolerance: how far a message's time may lie ahead.
        ///   - capacity: how many messages are remembered, at least 1.
        ///   - beginning: messages sealed before it are refused; best the time at which the key was agreed on.
        public init(
            span: Duration = defaultSpan,
            tolerance: Duration = defaultTolerance,
            capacity: Int = defaultCapacity,
            beginning: Date = .distantPast
        ) {
            self.span = span.wholeMilliseconds
            self.tolerance = tolerance.wholeMilliseconds
            self.capacity = max(1, capacity)
            floor = Milliseconds(beginning).count
        }

        /// How many messages are remembered.
        public var count: Int { seen.count }

        /// Admits a message that was opened, or refuses it and stays as it was.
        ///
        /// - Throws: `SealingError` with `fromTheFuture`, `tooOld` or `replayed`.
        public mutating func admit(_ message: OpenedMessage, at now: Date) throws(SealingError) {
            try admit(Seen(time: message.time.count, id: message.id), at: Milliseconds(now))
        }

        mutating func admit(_ message: Seen, at now: Milliseconds) throws(SealingError) {
            let oldest = now.advanced(by: -span).count
            guard message.time <= now.advanced(by: tolerance).count else { throw SealingError(.fromTheFuture) }
            guard message.time >= max(floor, oldest) else { throw SealingError(.tooOld) }
            let place = self.place(after: message.time)
            var index = place
            while index > 0, seen[index - 1].time == message.time {
                index -= 1
                guard seen[index].id != message.id else { throw SealingError(.replayed) }
            }
            seen.insert(message, at: place)
            forget(before: oldest)
            if seen.count > capacity {
                // Not this one alone, but its whole millisecond, or the floor could not stand above it.
                forget(before: seen[0].time + 1)
            }
        }

        /// Where the first message after this time is.
        private func place(after time: Int64) -> Int {
            var range = 0..<seen.count
            while !range.isEmpty {
                let middle = range.lowerBound + range.count / 2
                range = seen[middle].time <= time ? middle + 1..<range.upperBound : range.lowerBound..<middle
            }
            return range.lowerBound
        }

        /// The floor rises just above what is forgotten, not to `time`: a clock that once stood far ahead must not close
        /// the window for good.
        private mutating func forget(before time: Int64) {
            let forgotten = seen.prefix { $0.time < time }
            guard let last = forgotten.last else { return }
            floor = max(floor, last.time + 1)
            seen.removeFirst(forgotten.count)
        }
    }

    /// Coded form, stable: `{"span", "tolerance", "floor"` in milliseconds`, "capacity", "seen": [{"time", "id"}]}`.
    extension ReplayWindow: Codable {
        private enum CodingKeys: String, CodingKey {
            case span, tolerance, capacity, floor, seen
        }

        public init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            span = Milliseconds(count: try container.decode(Int64.self, forKey: .span)).count
            tolerance = Milliseconds(count: try container.decode(Int64.self, forKey: .tolerance)).count
            capacity = max(1, try container.decode(Int.self, forKey: .capacity))
            floor = max(0, try container.decode(Int64.self, forKey: .floor))
            seen = try container.decode([Seen].self, forKey: .seen)
                .map { Seen(time: Milliseconds(count: $0.time).count, id: $0.id) }
                .sorted { $0.time < $1.time }
            while seen.count > capacity { forget(before: seen[0].time + 1) }
        }

        public func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(span, forKey: .span)
            try container.encode(tolerance, forKey: .tolerance)
            try container.encode(capacity, forKey: .capacity)
            try container.encode(floor, forKey: .floor)
            try container.encode(seen, forKey: .seen)
        }
    }
#endif
