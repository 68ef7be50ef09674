#if canImport(CryptoKit) || Sealing
    #if canImport(FoundationEssentials)
        public import FoundationEssentials
    #else
        public import Foundation
    #endif

    /// The keys that a device opens payloads with: the current keys, and old keys for as long as pushes sealed with
    /// them may still arrive. A value type; the app stores its entries.
    public struct SealingKeyring: Sendable {
        /// A key and the end of its acceptance.
        public struct Entry: Sendable, Equatable {
            /// The key.
            public var key: SealingKey
            /// The end of the key's acceptance; nil for a current key.
            public var acceptedUntil: Date?

            /// - Parameters:
            ///   - key: The key.
            ///   - acceptedUntil: The time from which the key is no longer accepted; nil for a current key.
            public init(key: SealingKey, acceptedUntil: Date? = nil) {
                self.key = key
                self.acceptedUntil = acceptedUntil
            }

            /// Accepted before that time, but not at it.
            func isAccepted(at now: Date) -> Bool {
                self.acceptedUntil.map { now < $0 } ?? true
            }
        }

        /// The default time that an old key is accepted: 31 days, because APNs stores a push for up to 30 days.
        public static let defaultOverlap = Duration.seconds(31 * 86_400)

        /// The entries in the order in which they were added; at most one for each id.
        public private(set) var entries: [Entry] = []

        /// Creates a keyring of current keys. If two have the same id, the later one is used.
        public init(_ keys: SealingKey...) {
            for key in keys { self.add(key) }
        }

        /// Creates a keyring from stored entries. If two have the same id, the later one is used.
        public init(entries: [Entry]) {
            for entry in entries {
                self.remove(entry.key.id)
                self.entries.append(entry)
            }
        }

        /// Adds a current key, and replaces an existing key with its id.
        public mutating func add(_ key: SealingKey) {
            self.remove(key.id)
            self.entries.append(Entry(key: key))
        }

        /// Makes `key` the only current key. The previously current keys are accepted for the overlap; old keys stay
        /// unchanged.
        public mutating func rotate(to key: SealingKey, at now: Date, overlap: Duration = defaultOverlap) {
            for index in self.entries.indices where self.entries[index].acceptedUntil == nil {
                self.retire(index, at: now, overlap: overlap)
            }
            self.add(key)
        }

        /// Limits the acceptance of the key with this id to the overlap, or to its earlier end if it has one. An
        /// unknown id changes nothing.
        public mutating func retire(_ id: SealingKeyID, at now: Date, overlap: Duration = defaultOverlap) {
            guard let index = self.entries.firstIndex(where: { $0.key.id == id }) else { return }
            self.retire(index, at: now, overlap: overlap)
        }

        private mutating func retire(_ index: Int, at now: Date, overlap: Duration) {
            let end = now.addingTimeInterval(Double(overlap.wholeMilliseconds) / 1_000)
            self.entries[index].acceptedUntil = min(self.entries[index].acceptedUntil ?? end, end)
        }

        /// Removes a key immediately, for example after a theft or when the account is signed out.
        public mutating func remove(_ id: SealingKeyID) {
            self.entries.removeAll { $0.key.id == id }
        }

        /// Removes the expired keys. From then on, an attacker who takes the device cannot open payloads that they
        /// sealed.
        public mutating func removeExpired(at now: Date) {
            self.entries.removeAll { !$0.isAccepted(at: now) }
        }

        /// The key with this id, if it is accepted at this time.
        public func key(_ id: SealingKeyID, at now: Date) -> SealingKey? {
            self.entries.first { $0.key.id == id && $0.isAccepted(at: now) }?.key
        }
    }
#endif
