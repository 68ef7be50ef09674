#if canImport(CryptoKit) || Sealing
    #if canImport(FoundationEssentials)
        public import FoundationEssentials
    #else
        public import Foundation
    #endif

    /// The keys that a device opens with: the current ones, and old ones for as long as pushes sealed with them may be
    /// under way. A value; where its entries are stored is the app's affair.
    public struct SealingKeyring: Sendable {
        /// A key, and until when it is accepted.
        public struct Entry: Sendable, Equatable {
            /// The key.
            public var key: SealingKey
            /// Nil for a current key.
            public var acceptedUntil: Date?

            /// - Parameters:
            ///   - key: the key.
            ///   - acceptedUntil: when it ceases to be accepted; nil for a current key.
            public init(key: SealingKey, acceptedUntil: Date? = nil) {
                self.key = key
                self.acceptedUntil = acceptedUntil
            }

            /// Up to that time, and not at it.
            func isAccepted(at now: Date) -> Bool {
                self.acceptedUntil.map { now < $0 } ?? true
            }
        }

        /// How long an old key is accepted unless said otherwise: 31 days. APNs stores a push for up to 30.
        public static let defaultOverlap = Duration.seconds(31 * 86_400)

        /// In the order in which they were added; at most one of each id.
        public private(set) var entries: [Entry] = []

        /// Current keys. Of two with the same id the later one counts.
        public init(_ keys: SealingKey...) {
            for key in keys { self.add(key) }
        }

        /// Entries that were stored. Of two with the same id the later one counts.
        public init(entries: [Entry]) {
            for entry in entries {
                self.remove(entry.key.id)
                self.entries.append(entry)
            }
        }

        /// Adds a current key; one with the same id is replaced.
        public mutating func add(_ key: SealingKey) {
            self.remove(key.id)
            self.entries.append(Entry(key: key))
        }

        /// Makes `key` the only current key. Those that were current are accepted for the overlap still; those that were
        /// old stay as they are.
        public mutating func rotate(to key: SealingKey, at now: Date, overlap: Duration = defaultOverlap) {
            for index in self.entries.indices where self.entries[index].acceptedUntil == nil {
                self.retire(index, at: now, overlap: overlap)
            }
            self.add(key)
        }

        /// Accepts the key with this id only for the overlap still, or shorter if that was said before. An unknown id
        /// changes nothing.
        public mutating func retire(_ id: SealingKeyID, at now: Date, overlap: Duration = defaultOverlap) {
            guard let index = self.entries.firstIndex(where: { $0.key.id == id }) else { return }
            self.retire(index, at: now, overlap: overlap)
        }

        private mutating func retire(_ index: Int, at now: Date, overlap: Duration) {
            let end = now.addingTimeInterval(Double(overlap.wholeMilliseconds) / 1_000)
            self.entries[index].acceptedUntil = min(self.entries[index].acceptedUntil ?? end, end)
        }

        /// Forgets a key at once: after a theft, or when the account is signed out.
        public mutating func remove(_ id: SealingKeyID) {
            self.entries.removeAll { $0.key.id == id }
        }

        /// Forgets the keys whose time is over. From then on, nothing that they sealed can be opened by anyone who takes
        /// the device.
        public mutating func removeExpired(at now: Date) {
            self.entries.removeAll { !$0.isAccepted(at: now) }
        }

        /// The key with this id, if it is accepted.
        public func key(_ id: SealingKeyID, at now: Date) -> SealingKey? {
            self.entries.first { $0.key.id == id && $0.isAccepted(at: now) }?.key
        }
    }
#endif
