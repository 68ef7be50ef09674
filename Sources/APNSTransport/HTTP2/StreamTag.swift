/// The submitter's identifier of a stream: it is returned with the stream's result, and names the stream in a
/// cancellation. The submitter may reuse it after the result.
package struct StreamTag: Sendable, Hashable, ExpressibleByIntegerLiteral {
    package let rawValue: UInt64

    package init(_ rawValue: UInt64) { self.rawValue = rawValue }
    package init(integerLiteral value: UInt64) { self.rawValue = value }

    /// The tag of a batch's request, by its position in the batch. This tag is that of the first request.
    package func advanced(by position: Int) -> StreamTag {
        StreamTag(self.rawValue &+ UInt64(truncatingIfNeeded: position))
    }
}
