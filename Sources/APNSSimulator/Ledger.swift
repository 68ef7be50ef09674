public import APNSModel

/// One push as the simulator saw it.
public struct PushRecord: Sendable, Hashable {
    /// What became of a request.
    public struct Fate: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// It was answered. Whether the response arrived, only the client knows.
        public static let responded = Fate(rawValue: "responded")
        /// A script kept the response back for ever.
        public static let stalled = Fate(rawValue: "stalled")
        /// Its stream was reset.
        public static let reset = Fate(rawValue: "reset")
        /// It came above the last stream id of a GOAWAY and was not looked at.
        public static let aboveGoAway = Fate(rawValue: "above-goaway")
        /// Its connection was dropped or had fallen silent: nothing was said about it.
        public static let lost = Fate(rawValue: "lost")
    }

    /// From 1, over all connections, in the order in which the simulator decided.
    public var order: Int
    /// The number of the connection, from 1 in the order in which they were accepted.
    public var connection: Int
    /// The HTTP/2 stream.
    public var streamID: Int32
    /// When it was decided on.
    public var time: ContinuousClock.Instant
    /// In lower case; what stood in the path, if it is no device token.
    public var deviceToken: String
    /// The id that the client sent or the simulator made; nil if what was sent is not a UUID.
    public var apnsID: APNSID?
    /// What stood in `apns-topic`; nil if the header is missing.
    public var topic: String?
    /// What stood in `apns-push-type`; nil if the header is missing.
    public var pushType: PushType?
    /// The number in `apns-priority`; nil if the header is missing or no number.
    public var priority: Priority?
    /// The number in `apns-expiration`: seconds since 1970; nil if the header is missing.
    public var expiration: Int64?
    /// What stood in `apns-collapse-id`; nil if the header is missing.
    public var collapseID: String?
    /// At most 64 KiB of it; empty unless the configuration records payloads.
    public var payload: [UInt8]
    /// How many bytes of it came, up to 64 KiB.
    public var payloadBytes: Int
    /// What was answered, or would have been; nil if the push was not looked at.
    public var status: Int?
    /// The reason that was answered, or would have been; nil with 200.
    public var reason: RejectionReason?
    /// What became of the request.
    public var fate: Fate
    /// A response of 200 was decided on: a device would have been notified, whether or not the response arrived.
    public var isProcessed: Bool
    /// The kinds of the faults that applied to it, as scripts call them.
    public var faults: [String]
}

/// What a simulator has seen and done so far, to hold a client's results against.
public struct Ledger: Sendable {
    /// Every push in the order in which the simulator decided on them; empty if the configuration records none
    /// (`Simulator.Recording`).
    public internal(set) var pushes: [PushRecord] = []
    /// Every broadcast, in the order of the decisions. Kept where pushes are kept.
    public internal(set) var broadcasts: [ChannelCallRecord] = []
    /// Every call about channels, in the order of the decisions. Kept where pushes are kept.
    public internal(set) var channelCalls: [ChannelCallRecord] = []
    /// How many calls about channels came, and were done; they count as requests, too.
    public internal(set) var channelCallsReceived = 0
    /// Those of them that were done.
    public internal(set) var channelCallsProcessed = 0
    /// Connections that were accepted, with those whose TLS handshake failed.
    public internal(set) var connectionsOpened = 0
    /// Connections that have ended, whoever ended them.
    public internal(set) var connectionsClosed = 0
    /// All requests that came, whatever became of them.
    public internal(set) var requestsReceived = 0
    /// Requests that were accepted, whether or not a response was sent.
    public internal(set) var requestsProcessed = 0
    /// Requests that were answered with another status.
    public internal(set) var requestsRejected = 0
    /// Streams that a script reset with REFUSED_STREAM. Those that open above the limit are refused by the HTTP/2
    /// library and not counted.
    public internal(set) var streamsRefused = 0
    /// Requests that were neither answered nor refused: reset, stalled, lost, or above a GOAWAY.
    public internal(set) var requestsWithoutResponse = 0
    /// Answers by status.
    public internal(set) var responses: [Int: Int] = [:]
    /// GOAWAY frames, by a fault or on demand.
    public internal(set) var goAwaysSent = 0
    /// Connections that were closed without GOAWAY, by a fault or on demand.
    public internal(set) var connectionsDropped = 0
    /// Faults that took effect, one for each request or connection they changed.
    public internal(set) var faultsApplied = 0
    /// The same by kind, as scripts call them: `answer`, `goaway`, ….
    public internal(set) var faults: [String: Int] = [:]
    /// How often each id was processed; ids that never were are missing. Empty if the configuration counts only.
    public internal(set) var processedCounts: [APNSID: Int] = [:]
    /// The ids that were processed more than once: duplicates on a device.
    public internal(set) var duplicates: Set<APNSID> = []

    /// Nothing seen yet.
    public init() {}

    /// How often the push with this id was processed. More than once is a duplicate on a device. Always 0 if the
    /// configuration counts only.
    public func processedCount(of id: APNSID) -> Int { self.processedCounts[id] ?? 0 }

    /// Whether the push with this id was processed, whether or not its response arrived.
    public func processed(apnsID id: APNSID) -> Bool { self.processedCount(of: id) > 0 }

    /// What became of each request with this id, in order. Goes through all pushes.
    public func pushes(apnsID id: APNSID) -> [PushRecord] { self.pushes.filter { $0.apnsID == id } }

    mutating func count(_ fate: PushRecord.Fate, status: Int?, isProcessed: Bool, isRefusal: Bool) {
        self.requestsReceived += 1
        if isProcessed { self.requestsProcessed += 1 }
        switch fate {
        case .responded:
            if let status {
                self.responses[status, default: 0] += 1
                if !(200..<300).contains(status) { self.requestsRejected += 1 }
            }
        case .reset where isRefusal: self.streamsRefused += 1
        default: self.requestsWithoutResponse += 1
        }
    }

    mutating func count(processed id: APNSID) {
        let count = self.processedCounts[id, default: 0] + 1
        self.processedCounts[id] = count
        if count == 2 { self.duplicates.insert(id) }
    }

    mutating func count(faults names: [String]) {
        self.faultsApplied += names.count
        for name in names { self.faults[name, default: 0] += 1 }
    }
}
