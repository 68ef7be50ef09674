internal import APNSModel
internal import HTTP2Wire

/// What the decisions on one connection depend on beside the simulator's own state.
struct ConnectionState {
    let number: Int
    /// The last `authorization` and what was found in it.
    var authorization: [UInt8] = []
    var token = InspectedToken.malformed
    /// The keys' generation that `token` was found with.
    var generation = -1
    var isUpdatedTooOften = false
    /// The team of the first push that was accepted: other teams are refused from then on.
    var teamID: String?
    var hasRaisedLimit = false
    var highestStreamID: Int32 = 0
    /// The lowest last stream id of our GOAWAYs.
    var goAwayStreamID = Int32.max
    /// Nothing is said on it any more.
    var isLost = false
    /// What comes on a lost connection is processed all the same.
    var processesWhenLost = false
    /// Until when answers are kept back.
    var pausedUntil: ContinuousClock.Instant?
    var earlyResponded: Set<Int32> = []

    init(number: Int) { self.number = number }

    /// - Parameter streamID: nil: the highest one that was decided on.
    mutating func goAway(_ streamID: Int32?, debugData: [UInt8], code: UInt32) -> SessionAction {
        var last = max(streamID ?? self.highestStreamID, 0)
        // Streams that clients open have odd numbers.
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
