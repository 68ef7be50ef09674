package import NIOCore

/// A request to submit to a connection.
package struct StreamSubmission: Sendable {
    package var request: HTTP2Request
    package var tag: StreamTag
    /// The time on the connection's clock at which the request ends, sent or not, if no response has arrived.
    package var deadline: NIODeadline
    /// How long the response may take once the stream is open. The time for which the request is held before that does
    /// not count.
    package var responseLimit: TimeAmount
    /// Whether its body must leave `SendWindowRule.bulkReserve` of the send window to others.
    package var isBulk: Bool

    package init(
        request: HTTP2Request,
        tag: StreamTag,
        deadline: NIODeadline,
        responseLimit: TimeAmount = .nanoseconds(.max),
        isBulk: Bool = false
    ) {
        self.request = request
        self.tag = tag
        self.deadline = deadline
        self.responseLimit = responseLimit
        self.isBulk = isBulk
    }
}
