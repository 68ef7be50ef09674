package import NIOCore

/// Requests that are submitted to a connection together. Their common parts are stored once.
package struct RequestBatch: Sendable {
    package struct Entry: Sendable {
        /// How many bytes of the batch's `values` belong to each of the session's variable names. 0 means that the
        /// field is absent.
        package var valueLengths: SIMD8<UInt16>
        /// If empty, the batch's body is used.
        package var body: [UInt8]
        /// When the request ends, sent or not, if no response has arrived.
        package var deadline: NIODeadline

        /// How many bytes of the batch's `values` belong to this request.
        var valueCount: Int { self.valueLengths.wideSum }

        package init(valueLengths: SIMD8<UInt16>, body: [UInt8], deadline: NIODeadline) {
            self.valueLengths = valueLengths
            self.body = body
            self.deadline = deadline
        }
    }

    package var shared: HeaderBlock
    package var credential: HeaderBlock?
    /// The body of all requests that have no body of their own.
    package var body: [UInt8]
    /// How long each response may take once its stream is open. The time for which a request is held before that does
    /// not count.
    package var responseLimit: TimeAmount
    /// Whether the requests' bodies must leave `SendWindowRule.bulkReserve` of the send window to others.
    package var isBulk: Bool
    /// The values of the variable fields of all requests, concatenated.
    package var values: [UInt8] = []
    package var entries: [Entry] = []

    package init(
        shared: HeaderBlock,
        credential: HeaderBlock?,
        body: [UInt8],
        responseLimit: TimeAmount = .nanoseconds(.max),
        isBulk: Bool
    ) {
        self.shared = shared
        self.credential = credential
        self.body = body
        self.responseLimit = responseLimit
        self.isBulk = isBulk
    }
}
