package import PushQueue

/// A stream of outcomes that programs other than the relays read.
package protocol OutcomeStream: Sendable {
    /// Reads where the stream ends. Creates the stream if it does not exist.
    ///
    /// - Throws: `QueueError`: `unavailable` if the stream cannot be read now; `unusable` if its last message is none of
    ///   a relay.
    func end() async throws(QueueError) -> OutcomeStreamEnd

    /// Stores messages in their order. If one is not stored, none after it is.
    ///
    /// - Parameters:
    ///   - messages: at least one.
    ///   - sequence: where the stream must end.
    /// - Returns: whether all are stored. If not, the stream ended elsewhere, or ends after some of the messages.
    /// - Throws: `QueueError` `unavailable` if the stream cannot be written now. Some of the messages may be stored.
    func append(_ messages: [OutcomeMessage], after sequence: UInt64) async throws(QueueError) -> Bool

    /// Waits for running calls, and ends the connection. A later call opens it again.
    func close() async
}

/// An outcome in the stream.
package struct OutcomeMessage: Sendable, Hashable {
    /// Its position in the feed.
    package var cursor: Int64
    package var app: String
    /// What a consumer selects messages by, besides the app. Letters and `-`.
    package var kind: String
    package var body: [UInt8]

    package init(cursor: Int64, app: String, kind: String, body: [UInt8]) {
        self.cursor = cursor
        self.app = app
        self.kind = kind
        self.body = body
    }
}

/// Where a stream of outcomes ends.
package struct OutcomeStreamEnd: Sendable, Hashable {
    /// The number of the last message that was ever stored; 0 if there was none.
    package var sequence: UInt64
    /// The cursor of the last message; nil if the stream is empty.
    package var cursor: Int64?

    package init(sequence: UInt64 = 0, cursor: Int64? = nil) {
        self.sequence = sequence
        self.cursor = cursor
    }
}
