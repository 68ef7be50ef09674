package import NIOCore

/// A request to submit to a connection.
package struct StreamSubmission: Sendable {
    package var request: HTTP2Request
    /// The submitter's identifier of the stream, returned with its result.
    package var tag: UInt64
    /// The time on the connection's clock at which the stream is reset if no response has arrived.
    package var deadline: NIODeadline
    /// Whether its body must leave `SendWindowRule.bulkReserve` of the send window to others.
    package var isBulk: Bool

    package init(request: HTTP2Request, tag: UInt64, deadline: NIODeadline, isBulk: Bool = false) {
        self.request = request
        self.tag = tag
        self.deadline = deadline
        self.isBulk = isBulk
    }
}
