public import APNSModel

/// One push that the simulator received.
public struct PushRecord: Sendable, Hashable {
    /// How a request ended.
    public struct Fate: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// A response was sent. Only the client knows whether it arrived.
        public static let responded = Fate(rawValue: "responded")
        /// A script withheld the response permanently.
        public static let stalled = Fate(rawValue: "stalled")
        /// The simulator reset its stream.
        public static let reset = Fate(rawValue: "reset")
        /// Its stream was above the last stream id of a GOAWAY, and it was not processed.
        public static let aboveGoAway = Fate(rawValue: "above-goaway")
        /// Its connection was dropped or silent: the request got no response.
        public static let lost = Fate(rawValue: "lost")
    }

    /// The position of the decision, from 1, over all connections.
    public var order: Int
    /// The number of the connection, from 1, in the order of acceptance.
    public var connection: Int
    /// The HTTP/2 stream.
    public var streamID: Int32
    /// The time of the decision.
    public var time: ContinuousClock.Instant
    /// The device token in lower case, or the text from the path if it is not a device token.
    public var deviceToken: String
    /// The id that the client sent or the simulator generated; nil if the client sent one that is not a UUID.
    public var apnsID: APNSID?
    /// The value of `apns-topic`; nil if the header is missing.
    public var topic: String?
    /// The value of `apns-push-type`; nil if the header is missing.
    public var pushType: PushType?
    /// The number in `apns-priority`; nil if the header is missing or not a number.
    public var priority: Priority?
    /// The number in `apns-expiration`: seconds since 1970; nil if the header is missing.
    public var expiration: Int64?
    /// The value of `apns-collapse-id`; nil if the header is missing.
    public var collapseID: String?
    /// The first 64 KiB of the payload; empty unless the configuration records payloads.
    public var payload: [UInt8]
    /// How many bytes of the payload arrived, up to 64 KiB.
    public var payloadBytes: Int
    /// The status that was sent, or would have been sent; nil if the push was not checked.
    public var status: Int?
    /// The reason that was sent, or would have been sent; nil with 200.
    public var reason: RejectionReason?
    /// How the request ended.
    public var fate: Fate
    /// Whether the decision was 200: a device would have been notified, whether or not the response arrived.
    public var isProcessed: Bool
    /// The kinds of the faults that applied to it, by their names in scripts.
    public var faults: [String]
}

/// Everything that a simulator has received and done so far, for comparison with a client's results.
public struct Ledger: Sendable {
    /// Every push, in the order of the decisions; empty if the configuration does not record pushes
    /// (`Simulator.Recording`).
    public internal(set) var pushes: [PushRecord] = []
    /// Every broadcast, in the order of the decisions. Recorded if pushes are recorded.
    public internal(set) var broadcasts: [ChannelCallRecord] = []
    /// Every channel call, in the order of the decisions. Recorded if pushes are recorded.
    public internal(set) var channelCalls: [ChannelCallRecord] = []
    /// How many channel calls arrived. They also count as requests.
    public internal(set) var channelCallsReceived = 0
    /// How many channel calls were processed.
    public internal(set) var channelCallsProcessed = 0
    /// How many connections were accepted, including those whose TLS handshake failed.
    public internal(set) var connectionsOpened = 0
    /// How many connections have ended, on either side.
    public internal(set) var connectionsClosed = 0
    /// How many requests arrived.
    public internal(set) var requestsReceived = 0
    /// How many requests were accepted, whether or not a response was sent.
    public internal(set) var requestsProcessed = 0
    /// How many requests got a response with another status.
    public internal(set) var requestsRejected = 0
    /// How many streams a script reset with REFUSED_STREAM. Streams above the limit are refused by the HTTP/2 library
    /// and are not counted.
    public internal(set) var streamsRefused = 0
    /// How many requests got neither a response nor a refusal: they were reset, stalled, lost, or above a GOAWAY.
    public internal(set) var requestsWithoutResponse = 0
    /// Responses by status.
    public internal(set) var responses: [Int: Int] = [:]
    /// How many GOAWAY frames were sent, by a fault or on demand.
    public internal(set) var goAwaysSent = 0
    /// How many connections were closed without GOAWAY, by a fault or on demand.
    public internal(set) var connectionsDropped = 0
    /// How many times faults took effect, counted once for each request or connection they changed.
    public internal(set) var faultsApplied = 0
    /// The number of applied faults by kind, by their names in scripts: `respond`, `goaway`, ….
    public internal(set) var faults: [String: Int] = [:]
    /// How often each id was processed, for ids that were processed at all. Empty if the configuration records only
    /// counts.
    public internal(set) var processedCounts: [APNSID: Int] = [:]
    /// The ids that were processed more than once. They would be duplicates on a device.
    public internal(set) var duplicates: Set<APNSID> = []

    /// An empty ledger.
    public init() {}

    /// How often the push with this id was processed. More than once means a duplicate on a device. Always 0 if the
    /// configuration records only counts.
    public func processedCount(of id: APNSID) -> Int { self.processedCounts[id] ?? 0 }

    /// Whether the push with this id was processed, whether or not its response arrived.
    public func processed(apnsID id: APNSID) -> Bool { self.processedCount(of: id) > 0 }

    /// The records of all requests with this id, in order. Scans all pushes.
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
