public import APNSModel

/// Everything that a simulator has received and done so far, for comparison with a client's results.
public struct Ledger: Sendable {
    /// Every push to a device, in the order of the decisions; empty if the configuration does not record pushes
    /// (`Simulator.Recording`). Only the last ones if the configuration limits them (`Simulator.Configuration.keep`).
    public private(set) var pushes: [PushRecord] = []
    /// Every broadcast, in the order of the decisions. Recorded and limited like `pushes`.
    public private(set) var broadcasts: [PushRecord] = []
    /// Every channel call, in the order of the decisions. Recorded and limited like `pushes`.
    public private(set) var channelCalls: [ChannelCallRecord] = []
    /// How many pushes and broadcasts were recorded and then dropped, because the configuration limits them.
    public private(set) var dropped = 0
    /// The position of the last recorded push or broadcast (`PushRecord.order`); 0 before the first.
    public private(set) var lastOrder = 0
    /// How many pushes and broadcasts were recorded, by what the client received.
    public private(set) var outcomes: [PushRecord.Outcome: Int] = [:]
    /// How often the ledger was cleared (`Simulator.reset()`).
    public private(set) var resets = 0
    /// `lastOrder` when the ledger was last cleared.
    private(set) var clearedOrder = 0
    /// How many channel calls arrived. They also count as requests.
    public internal(set) var channelCallsReceived = 0
    /// How many channel calls were processed.
    public internal(set) var channelCallsProcessed = 0
    /// How many connections were accepted, including those whose TLS handshake failed.
    public internal(set) var connectionsOpened = 0
    /// How many connections have ended, on either side.
    public internal(set) var connectionsClosed = 0
    /// How many connections ended before the client could send a request, for example because it does not trust the
    /// simulator's certificate authority. Those to which the client sent no byte do not count.
    public internal(set) var connectionsFailed = 0
    /// The failed connections, grouped by cause and host, in the order in which each group began. At most 20 groups;
    /// connections of further groups only count.
    public internal(set) var failedConnections: [FailedConnection] = []
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
    /// counts. If the configuration limits the recorded pushes, ids of dropped pushes are forgotten.
    public internal(set) var processedCounts: [APNSID: Int] = [:]
    /// The ids that were processed more than once. They would be duplicates on a device.
    public internal(set) var duplicates: Set<APNSID> = []

    /// How many different provider tokens arrived whose signature was correct. Each token counts when a connection presents
    /// it for the first time.
    public var providerTokens: Int { self.presentedTokens.count }
    private var presentedTokens: Set<[UInt8]> = []

    /// The number of recorded pushes, and of broadcasts, above which the oldest are dropped; nil for no limit.
    let keep: Int?

    /// An empty ledger without a limit.
    public init() { self.keep = nil }

    init(keep: Int?) { self.keep = keep.map { max($0, 1) } }

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

    // MARK: Recording

    /// Counts a provider token, unless it was counted before.
    mutating func count(providerToken token: some Collection<UInt8>) { self.presentedTokens.insert(Array(token)) }

    /// Appends a push or broadcast. Its `order` must be `lastOrder + 1`.
    mutating func append(_ push: PushRecord) {
        self.lastOrder = push.order
        self.outcomes[push.outcome, default: 0] += 1
        if push.channelID == nil { self.pushes.append(push) } else { self.broadcasts.append(push) }
        if self.keep != nil { self.dropped += self.trim(\.pushes) + self.trim(\.broadcasts) }
    }

    mutating func append(_ call: ChannelCallRecord) {
        self.channelCalls.append(call)
        if let excess = self.excess(self.channelCalls.count) { self.channelCalls.removeFirst(excess) }
    }

    /// How many of `count` records to drop; nil for none. They are dropped in blocks, because removing from the front
    /// moves all others.
    private func excess(_ count: Int) -> Int? {
        guard let keep, count - keep > keep / 10 else { return nil }
        return count - keep
    }

    private mutating func trim(_ list: WritableKeyPath<Ledger, [PushRecord]>) -> Int {
        guard let excess = self.excess(self[keyPath: list].count) else { return 0 }
        for push in self[keyPath: list].prefix(excess) where push.isProcessed {
            guard let id = push.apnsID, let count = self.processedCounts[id] else { continue }
            self.processedCounts[id] = count > 1 ? count - 1 : nil
            if count <= 2 { self.duplicates.remove(id) }
        }
        self[keyPath: list].removeFirst(excess)
        return excess
    }

    /// Forgets everything except `lastOrder`, so that cursors stay valid.
    mutating func clear() {
        var empty = Ledger(keep: self.keep)
        empty.lastOrder = self.lastOrder
        empty.clearedOrder = self.lastOrder
        empty.resets = self.resets + 1
        self = empty
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
