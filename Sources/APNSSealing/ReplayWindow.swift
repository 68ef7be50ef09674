#if canImport(CryptoKit) || Sealing
    #if canImport(FoundationEssentials)
        public import FoundationEssentials
    #else
        public import Foundation
    #endif

    /// Admits each message once, and none whose age is out of bounds. A value type: the app stores it in coded form
    /// where its extension can read it.
    ///
    /// Messages are identified by their nonce and evaluated by the time that was sealed with them, so the server keeps
    /// no counter. Admitted messages are remembered for the span, up to the capacity. Forgetting a message raises a
    /// floor: messages older than the floor are no longer admitted. As a result, no message is ever admitted twice,
    /// whatever the device's clock says and however many messages arrive. In case of doubt, a message that was never
    /// seen is refused.
    public struct ReplayWindow: Sendable, Hashable {
        /// The default maximum age of a message: 31 days, because APNs stores a push for up to 30 days.
        public static let defaultSpan = Duration.seconds(31 * 86_400)
        /// The default limit of how far the server's clock may be ahead of the device's: one day, because users set
        /// clocks.
        public static let defaultTolerance = Duration.seconds(86_400)
        /// The default number of messages that are remembered. In coded form, each takes about 40 bytes.
        public static let defaultCapacity = 1_024

        struct Seen: Sendable, Hashable, Codable {
            /// Milliseconds since 1970.
            var time: Int64
            var id: SealedMessageID
        }

        private let span: Int64
        private let tolerance: Int64
        private let capacity: Int
        /// Sorted by time, oldest first.
        private var seen: [Seen] = []
        /// Every admitted message is in `seen` or older than this.
        private var floor: Int64

        /// - Parameters:
        ///   - span: The maximum age of a message, to the millisecond.
        ///   - tolerance: How far a message's time may be in the future.
        ///   - capacity: How many messages are remembered, at least 1.
        ///   - beginning: Messages sealed before this time are refused. Preferably the time of the key agreement.
        public init(
            span: Duration = defaultSpan,
            tolerance: Duration = defaultTolerance,
            capacity: Int = defaultCapacity,
            beginning: Date = .distantPast
        ) {
            self.span = span.wholeMilliseconds
            self.tolerance = tolerance.wholeMilliseconds
            self.capacity = max(1, capacity)
            self.floor = Milliseconds(beginning).count
        }

        /// The number of messages that are remembered.
        public var count: Int { self.seen.count }

        /// Admits an opened message, or refuses it and stays unchanged.
        ///
        /// - Throws: `SealingError` with `fromTheFuture`, `tooOld` or `replayed`.
        public mutating func admit(_ message: OpenedMessage, at now: Date) throws(SealingError) {
            try self.admit(Seen(time: message.time.count, id: message.id), at: Milliseconds(now))
        }

        mutating func admit(_ message: Seen, at now: Milliseconds) throws(SealingError) {
            let oldest = now.advanced(by: -self.span).count
            guard message.time <= now.advanced(by: self.tolerance).count else { throw SealingError(.fromTheFuture) }
            guard message.time >= max(self.floor, oldest) else { throw SealingError(.tooOld) }
            let place = self.place(after: message.time)
            var index = place
            while index > 0, self.seen[index - 1].time == message.time {
                index -= 1
                guard self.seen[index].id != message.id else { throw SealingError(.replayed) }
            }
            self.seen.insert(message, at: place)
            self.forget(before: oldest)
            if self.seen.count > self.capacity {
                // Forget all messages of its millisecond, because the floor must be above all forgotten messages.
                self.forget(before: self.seen[0].time + 1)
            }
        }

        /// The index of the first message after this time.
        private func place(after time: Int64) -> Int {
            var range = 0..<self.seen.count
            while !range.isEmpty {
                let middle = range.lowerBound + range.count / 2
                range = self.seen[middle].time <= time ? middle + 1..<range.upperBound : range.lowerBound..<middle
            }
            return range.lowerBound
        }

        /// Raises the floor to just above the forgotten messages, not to `time`: a clock that was once far ahead must
        /// not close the window permanently.
        private mutating func forget(before time: Int64) {
            let forgotten = self.seen.prefix { $0.time < time }
            guard let last = forgotten.last else { return }
            self.floor = max(self.floor, last.time + 1)
            self.seen.removeFirst(forgotten.count)
        }
    }

    /// The coded form is stable: `{"span", "tolerance", "floor", "capacity", "seen": [{"time", "id"}]}`, with all times
    /// in milliseconds.
    extension ReplayWindow: Codable {
        private enum CodingKeys: String, CodingKey {
            case span, tolerance, capacity, floor, seen
        }

        public init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            self.span = Milliseconds(count: try container.decode(Int64.self, forKey: .span)).count
            self.tolerance = Milliseconds(count: try container.decode(Int64.self, forKey: .tolerance)).count
            self.capacity = max(1, try container.decode(Int.self, forKey: .capacity))
            self.floor = max(0, try container.decode(Int64.self, forKey: .floor))
            self.seen = try container.decode([Seen].self, forKey: .seen)
                .map { Seen(time: Milliseconds(count: $0.time).count, id: $0.id) }
                .sorted { $0.time < $1.time }
            while self.seen.count > self.capacity { self.forget(before: self.seen[0].time + 1) }
        }

        public func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(self.span, forKey: .span)
            try container.encode(self.tolerance, forKey: .tolerance)
            try container.encode(self.capacity, forKey: .capacity)
            try container.encode(self.floor, forKey: .floor)
            try container.encode(self.seen, forKey: .seen)
        }
    }
#endif
