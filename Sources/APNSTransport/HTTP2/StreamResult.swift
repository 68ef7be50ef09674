/// How a stream ended, from its submitter's point of view.
package enum StreamEnding: Sendable, Hashable {
    /// A complete final header block arrived (status 200 or above). Later events do not change that.
    case response
    /// No byte of the request was passed to the transport.
    case notSent
    /// The peer proved that it did not process the request.
    case notProcessed
    /// The request was written, and no response arrived.
    case unknown
}

/// The cause of a stream's end.
package enum StreamCause: Sendable, Hashable {
    /// The peer's response.
    case responded
    /// A RST_STREAM from the peer, or from nghttp2 because of a malformed message.
    case reset(HTTP2ErrorCode)
    /// The peer's GOAWAY.
    case goAway
    case connectionLost
    /// We closed the connection.
    case closedLocally
    /// Its deadline passed, or its response took longer than its limit (`responseLimit`).
    case deadline
    /// Its submitter cancelled it.
    case cancelled
    /// The peer allows no further stream at the moment, or the connection accepts none any more.
    case noCapacity
    /// The request has no path, or too many or too long fields; or nghttp2 rejected it, and the connection ends with it.
    case faulty
}

package struct StreamResult: Sendable {
    /// Parts that few responses have. They are stored in a box, because a result is copied several times and an
    /// ordinary response has none of them.
    private final class Details: Sendable {
        let fields: FieldList
        let body: [UInt8]

        init(_ fields: FieldList, _ body: [UInt8]) {
            self.fields = fields
            self.body = body
        }
    }

    /// The submitter's identifier of the stream.
    package var tag: StreamTag
    package var ending: StreamEnding
    package var cause: StreamCause
    /// 0 unless the ending is `response`.
    package var status: Int
    private var details: Details?

    package init(
        tag: StreamTag,
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

    /// The response's fields, except those that the session's `ResponseFilter` removed.
    package var fields: FieldList { self.details?.fields ?? FieldList() }
    /// The response's body, at most `HTTP2ClientSession.Configuration.responseBodyLimit` bytes.
    package var body: [UInt8] { self.details?.body ?? [] }
    /// Whether `fields` and `body` are empty.
    package var isBare: Bool { self.details == nil }

    /// The result of a request that never got a stream.
    package static func notSent(_ cause: StreamCause, tag: StreamTag = 0) -> StreamResult {
        StreamResult(tag: tag, ending: .notSent, cause: cause)
    }
}

/// The certainty table: what the end of a stream proves. It has no side effects, so that each row can have a test.
package enum StreamCertainty {
    /// Determines how a stream ended.
    ///
    /// - Parameters:
    ///   - hasFinalHeaders: Whether a complete header block with a status of 200 or above was received.
    ///   - isWritten: Whether nghttp2 reported HEADERS as sent (`on_frame_send`). The socket's later result is not
    ///     considered, because a failed write does not prove that no byte was sent.
    ///   - cause: The cause of the stream's end.
    ///   - streamID: The id of the stream.
    ///   - lowestGoAwayStreamID: The lowest last id of all GOAWAYs. A stream above it was not processed
    ///     (RFC 9113, section 6.8).
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
