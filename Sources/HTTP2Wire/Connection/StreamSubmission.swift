package import NIOCore

/// One request on its way to a connection.
package struct StreamSubmission: Sendable {
    package var request: HTTP2Request
    /// What the submitter calls the stream; comes back with its result.
    package var tag: UInt64
    /// When the stream is reset if no response has come, by the connection's clock.
    package var deadline: NIODeadline
    /// Whether its body leaves the last of the send window to others.
    package var isBulk: Bool

    package init(request: HTTP2Request, tag: UInt64, deadline: NIODeadline, isBulk: Bool = false) {
        self.request = request
        self.tag = tag
        self.deadline = deadline
        self.isBulk = isBulk
    }
}
