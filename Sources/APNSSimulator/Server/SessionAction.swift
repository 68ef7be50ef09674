internal import HTTP2Wire

/// What a session is to do, in this order.
enum SessionAction {
    struct Response {
        var streamID: Int32
        var status: Int
        var fields: FieldList
        var body: [UInt8]
        var ending = ResponseEnding.endStream
        var informational: [Int] = []
        /// The stream is reset behind what has been said of the response, which is not its end.
        var cutCode: UInt32?
        /// RST_STREAM behind the whole response.
        var resetCode: UInt32?

        /// Whether it is a response as APNs gives it.
        var isPlain: Bool {
            self.ending == .endStream && self.informational.isEmpty && self.cutCode == nil && self.resetCode == nil
        }
    }

    case respond(Response, after: Duration)
    case reset(Int32, HTTP2ErrorCode)
    case settings([HTTP2Setting])
    case goAway(lastStreamID: Int32, code: HTTP2ErrorCode, debugData: [UInt8])
    /// GOAWAY with 2^31-1 now, and the one that is meant after its notice.
    case gracefulGoAway(FaultEffect.GoAway, notice: Duration)
    case drop(ConnectionEnding)
    case silence(acknowledgesPings: Bool, reads: Bool)
    case alert(UInt8)
    case write([UInt8])
    case settingsFlood(Int)
    case slowReader(bytes: Int, every: Duration)
    case listenerDown(Duration)
}
