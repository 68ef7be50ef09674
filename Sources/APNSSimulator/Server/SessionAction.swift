internal import APNSTransport

/// An action of a session. Actions are performed in order.
enum SessionAction {
    struct Response {
        var streamID: Int32
        var status: Int
        var fields: FieldList
        var body: [UInt8]
        var ending = ResponseEnding.endStream
        var informational: [Int] = []
        /// The code with which the stream is reset after the truncated response.
        var cutCode: UInt32?
        /// The code of an RST_STREAM after the complete response.
        var resetCode: UInt32?

        /// Whether it has the form of APNs' own responses.
        var isPlain: Bool {
            self.ending == .endStream && self.informational.isEmpty && self.cutCode == nil && self.resetCode == nil
        }
    }

    case respond(Response, after: Duration)
    case reset(Int32, HTTP2ErrorCode)
    case settings([HTTP2Setting])
    case goAway(lastStreamID: Int32, code: HTTP2ErrorCode, debugData: [UInt8])
    /// GOAWAY with 2^31-1 now, and the final one after the notice.
    case gracefulGoAway(FaultEffect.GoAway, notice: Duration)
    case drop(ConnectionEnding)
    case silence(acknowledgesPings: Bool, reads: Bool)
    case write([UInt8])
    case settingsFlood(Int)
    case slowReader(bytes: Int, every: Duration)
    case listenerDown(Duration)
}
