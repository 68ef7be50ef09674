/// What a simulator saw and did, to hold a client's outcomes against.
public struct Ledger: Sendable {
    public struct Push: Sendable, Hashable {
        /// Which connection it came on, counted from 1.
        public var connection: Int
        public var streamID: Int32
        public var apnsID: String?
        public var deviceToken: String
        public var topic: String?
        public var pushType: String?
        public var priority: String?
        public var expiration: String?
        public var collapseID: String?
        public var payload: [UInt8]
        /// The status of the answer; nil when there was none.
        public var status: Int?
        public var reason: String?
        /// APNs took the push, whether or not the client heard of it.
        public var isProcessed: Bool
    }

    /// Empty unless the configuration says `recordsPushes`.
    public internal(set) var pushes: [Push] = []
    public internal(set) var connectionsOpened = 0
    public internal(set) var connectionsClosed = 0
    public internal(set) var pushesReceived = 0
    public internal(set) var pushesProcessed = 0
    /// Answers by status.
    public internal(set) var answers: [Int: Int] = [:]
    public internal(set) var goAways = 0
    public internal(set) var resets = 0
    public internal(set) var drops = 0
    /// The most requests that were open on one connection at once.
    public internal(set) var mostConcurrentStreams = 0

    /// How often each `apns-id` (lower case) was processed.
    public var processedCounts: [String: Int] {
        self.pushes.reduce(into: [:]) { counts, push in
            if push.isProcessed, let id = push.apnsID { counts[id.lowercased(), default: 0] += 1 }
        }
    }
}
