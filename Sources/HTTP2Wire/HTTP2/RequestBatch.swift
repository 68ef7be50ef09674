package import NIOCore

/// Requests that go to a connection together; what they have in common stands here once.
package struct RequestBatch: Sendable {
    package struct Entry: Sendable {
        /// How many bytes of the batch's `values` belong to each of the session's variable names. 0: the field is absent.
        package var valueLengths: SIMD8<UInt16>
        /// Empty: the batch's.
        package var body: [UInt8]
        /// When the stream is reset if no response has come.
        package var deadline: NIODeadline

        /// How many bytes of the batch's `values` are this request's.
        var valueCount: Int {
            var count = 0
            for index in 0..<8 { count += Int(self.valueLengths[index]) }
            return count
        }

        package init(valueLengths: SIMD8<UInt16>, body: [UInt8], deadline: NIODeadline) {
            self.valueLengths = valueLengths
            self.body = body
            self.deadline = deadline
        }
    }

    package var shared: HeaderBlock
    package var credential: HeaderBlock?
    /// The body of all requests that have none of their own.
    package var body: [UInt8]
    /// Whether their bodies leave the last of the send window to others.
    package var isBulk: Bool
    /// The values of the variable fields, request after request.
    package var values: [UInt8] = []
    package var entries: [Entry] = []

    package init(shared: HeaderBlock, credential: HeaderBlock?, body: [UInt8], isBulk: Bool) {
        self.shared = shared
        self.credential = credential
        self.body = body
        self.isBulk = isBulk
    }
}
