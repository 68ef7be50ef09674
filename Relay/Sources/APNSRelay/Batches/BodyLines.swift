import Hummingbird
import HummingbirdCore
import NIOCore

/// The lines of a body that have content, without its blank lines.
struct BodyLines: AsyncSequence {
    struct Line {
        var text: [UInt8]
        /// The number of the line in the body, counted from 1.
        var number: Int
    }

    let body: RequestBody
    /// The longest line, in bytes. A longer one ends the sequence with an error.
    let limit: Int

    func makeAsyncIterator() -> Iterator { Iterator(parts: self.body.makeAsyncIterator(), limit: self.limit) }

    struct Iterator: AsyncIteratorProtocol {
        var parts: RequestBody.AsyncIterator
        let limit: Int
        private var part = ByteBuffer()
        private var number = 0
        private var isAtEnd = false

        init(parts: RequestBody.AsyncIterator, limit: Int) {
            self.parts = parts
            self.limit = limit
        }

        mutating func next() async throws -> Line? { try await self.next(isolation: nil) }

        mutating func next(isolation actor: isolated (any Actor)?) async throws -> Line? {
            var text: [UInt8] = []
            while true {
                let view = self.part.readableBytesView
                if let end = view.firstIndex(of: UInt8(ascii: "\n")) {
                    text += view[view.startIndex..<end]
                    self.part.moveReaderIndex(to: end + 1)
                    self.number += 1
                    if !Self.isBlank(text) { return Line(text: text, number: self.number) }
                    text.removeAll(keepingCapacity: true)
                    continue
                }
                text += view
                guard text.count <= self.limit else {
                    var fault = PushFault(.badJSON, nil, "the line has more than \(self.limit) bytes")
                    fault.line = self.number + 1
                    throw APIError(fault)
                }
                if self.isAtEnd { return nil }
                if let next = try await self.parts.next(isolation: actor) {
                    self.part = next
                    continue
                }
                self.isAtEnd = true
                self.part.clear()
                self.number += 1
                return Self.isBlank(text) ? nil : Line(text: text, number: self.number)
            }
        }

        private static func isBlank(_ text: [UInt8]) -> Bool { text.allSatisfy { [0x20, 0x09, 0x0D].contains($0) } }
    }
}

extension RequestBody {
    func lines(limit: Int) -> BodyLines { BodyLines(body: self, limit: limit) }
}
