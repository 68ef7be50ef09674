internal import APNSModel
internal import APNSTransport

/// The state of one connection on which decisions depend, in addition to the simulator's shared state.
struct ConnectionState {
    let number: Int
    /// The last `authorization`, with its parsed token in `token`.
    var authorization: [UInt8] = []
    var token = InspectedToken.malformed
    /// The generation of the keys against which `token` was checked.
    var generation = -1
    /// Whether the limit on token updates must be checked: `token` is new, or its key had another one too recently.
    var needsUpdateCheck = false
    /// The team of the first accepted push. Pushes of other teams are then rejected.
    var teamID: String?
    var hasRaisedLimit = false
    var highestStreamID: Int32 = 0
    /// The lowest last stream id in the GOAWAYs that were sent.
    var goAwayStreamID = Int32.max
    /// Whether the connection no longer sends anything.
    var isLost = false
    /// Whether requests on a lost connection are processed nevertheless.
    var processesWhenLost = false
    /// The time until which responses are held back.
    var pausedUntil: ContinuousClock.Instant?
    var earlyResponded: Set<Int32> = []

    init(number: Int) { self.number = number }

    /// - Parameter streamID: the last stream id; nil for the highest stream with a decision.
    mutating func goAway(_ streamID: Int32?, debugData: [UInt8], code: UInt32) -> SessionAction {
        var last = max(streamID ?? self.highestStreamID, 0)
        // Clients open streams with odd numbers.
        if last.isMultiple(of: 2), last > 0 { last -= 1 }
        self.goAwayStreamID = min(self.goAwayStreamID, last)
        return .goAway(lastStreamID: last, code: HTTP2ErrorCode(rawValue: code), debugData: debugData)
    }
}

extension FaultEffect.GoAway {
    var debugData: [UInt8] {
        if let debug { return Array(debug.utf8) }
        return self.reason.map { Verdict(status: 0, reason: RejectionReason(rawValue: $0)).body } ?? []
    }
}
