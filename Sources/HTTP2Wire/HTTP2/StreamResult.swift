/// How a stream ended for the one who opened it.
package enum StreamEnding: Sendable, Hashable {
    /// A complete final header block came (status 200 or above). What followed does not change that.
    case response
    /// No byte of the request was given to the transport.
    case notSent
    /// The peer proved that it did not look at the request.
    case notProcessed
    /// The request was written, and no response came.
    case unknown
}

/// What ended the stream.
package enum StreamCause: Sendable, Hashable {
    /// The peer's answer.
    case responded
    /// A RST_STREAM of the peer, or of nghttp2 on a broken message.
    case reset(HTTP2ErrorCode)
    /// The peer's GOAWAY.
    case goAway
    case connectionLost
    /// We closed the connection.
    case closedLocally
    /// Its time was over.
    case deadline
    /// We were asked to give it up.
    case cancelled
    /// The peer allows no further stream at the moment, or the connection takes none any more.
    case noCapacity
    /// The submission itself broke a rule of ours; the connection ends with it.
    case faulty
}

package struct StreamResult: Sendable {
    /// What few answers have: in a box, since an ordinary one is copied a few times on its way and has none of it.
    private final class Details: Sendable {
        let fields: FieldList
        let body: [UInt8]

        init(_ fields: FieldList, _ body: [UInt8]) {
            self.fields = fields
            self.body = body
        }
    }

    /// What the submitter called the stream.
    package var tag: UInt64
    package var ending: StreamEnding
    package var cause: StreamCause
    /// 0 unless the ending is `response`.
    package var status: Int
    private var details: Details?

    package init(
        tag: UInt64,
        ending: StreamEnding,
        cause: StreamCause,
        status: Int = 0,
        fields: FieldList = FieldList(),
        body: [UInt8] = []
    ) {
        self.tag = tag
        self.ending = ending
        self.cause = cause
        self.status = status
        if !fields.isEmpty || !body.isEmpty { self.details = Details(fields, body) }
    }

    /// Without what the session's `ResponseFilter` left out.
    package var fields: FieldList { self.details?.fields ?? FieldList() }
    /// At most `HTTP2Session.Configuration.responseBodyLimit` bytes.
    package var body: [UInt8] { self.details?.body ?? [] }
    /// Whether `fields` and `body` are empty.
    package var isBare: Bool { self.details == nil }

    /// The result of a request that no connection took.
    package static func notSent(_ cause: StreamCause, tag: UInt64 = 0) -> StreamResult {
        StreamResult(tag: tag, ending: .notSent, cause: cause)
    }
}

/// The certainty table: what the end of a stream proves. Pure, so that each line has a test.
package enum StreamCertainty {
    /// - Parameters:
    ///   - hasFinalHeaders: a complete header block with a status of 200 or above was seen.
    ///   - isWritten: nghttp2 reported HEADERS as taken (`on_frame_send`). What the socket did later is not asked:
    ///     a failed write does not prove that nothing left.
    ///   - streamID, lowestGoAwayStreamID: a stream above the last id of any GOAWAY was not processed (RFC 9113,
    ///     section 6.8).
    package static func ending(
        hasFinalHeaders: Bool,
        isWritten: Bool,
        cause: StreamCause,
        streamID: Int32,
        lowestGoAwayStreamID: Int32
    ) -> StreamEnding {
        if hasFinalHeaders { return .response }
        if !isWritten { return .notSent }
        if streamID > lowestGoAwayStreamID { return .notProcessed }
        if cause == .reset(.refusedStream) { return .notProcessed }
        return .unknown
    }
}
