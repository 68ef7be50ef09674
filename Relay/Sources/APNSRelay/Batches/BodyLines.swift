import HummingbirdCore
import NIOCore

/// The lines of a body that have content.
struct BodyLines: AsyncSequence {
    let body: RequestBody
    /// The longest line, in bytes. A longer one ends the sequence with an error.
    let limit: Int

    func makeAsyncIterator() -> Iterator { Iterator(parts: self.body.makeAsyncIterator(), limit: self.limit) }

    struct Iterator: AsyncIteratorProtocol {
        var parts: RequestBody.AsyncIterator
        let limit: Int
        private var splitter = LineSplitter()
        private var isAtEnd = false

        init(parts: RequestBody.AsyncIterator, limit: Int) {
            self.parts = parts
            self.limit = limit
        }

        mutating func next() async throws -> LineSplitter.Line? { try await self.next(isolation: nil) }

        mutating func next(isolation actor: isolated (any Actor)?) async throws -> LineSplitter.Line? {
            while true {
                if let line = self.splitter.next() { return line }
                if self.isAtEnd { return nil }
                guard self.splitter.pending <= self.limit else {
                    var fault = PushFault(.badJSON, nil, "the line has more than \(self.limit) bytes")
                    fault.line = self.splitter.number + 1
                    throw APIError(fault)
                }
                if let part = try await self.parts.next(isolation: actor) {
                    self.splitter.append(part.readableBytesView)
                } else {
                    self.splitter.finish()
                    self.isAtEnd = true
                }
            }
        }
    }
}
