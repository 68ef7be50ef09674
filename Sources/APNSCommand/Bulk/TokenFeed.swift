import APNSPool

/// A line of the token file.
struct TokenLine: Sendable {
    var token: String
    var number: Int
    /// Its row of an earlier run.
    var earlier: EarlierResults.Row?
}

/// Reads the lines to send until the file ends or the run is stopped.
actor TokenFeed {
    /// Why there are no more lines.
    enum End: Equatable {
        case endOfFile
        case stopped
        case failed(String)
    }

    /// The most lines returned at once.
    private static let batch = 64
    /// The most lines skipped before the feed checks again whether to stop.
    private static let longestSkip = 10_000
    /// The delay before reading again from a pipe with a slow writer.
    private static let pause = Duration.milliseconds(20)

    private let path: String
    private let reader: LineReader
    private let earlier: EarlierResults?
    /// The number of lines that were returned.
    private(set) var count = 0
    private(set) var end: End?
    /// Whether a line differs from its row of an earlier run.
    private(set) var isOtherFile = false

    init(_ reader: sending LineReader, path: String, earlier: EarlierResults?) {
        self.reader = reader
        self.path = path
        self.earlier = earlier
    }

    /// The next lines; empty at the end.
    func next() async -> [TokenLine] {
        while self.end == nil {
            if Task.isCancelled || Interrupts.isStopRequested {
                self.end = .stopped
                break
            }
            let (lines, isStalled) = self.read()
            self.count += lines.count
            if !lines.isEmpty { return lines }
            if isStalled, self.end == nil { try? await Task.sleep(for: Self.pause) }
        }
        return []
    }

    private func read() -> (lines: [TokenLine], isStalled: Bool) {
        var lines: [TokenLine] = []
        var skipped = 0
        while lines.count < Self.batch, skipped < Self.longestSkip {
            switch self.reader.next() {
            case .stalled:
                return (lines, true)
            case .end:
                if let failure = self.reader.failure {
                    self.end = .failed("--tokens: \(Files.name(self.path)) cannot be read: \(failure)")
                } else {
                    self.end = .endOfFile
                }
                return (lines, false)
            case .line(let token, let number):
                guard let earlier else {
                    lines.append(TokenLine(token: token, number: number))
                    continue
                }
                guard earlier.isRow(ofLine: number, for: token) else {
                    self.isOtherFile = true
                    self.end = .failed(
                        "--tokens: line \(number) of \(Files.name(self.path)) is not the token of its results row"
                    )
                    return (lines, false)
                }
                switch earlier.plan(forLine: number) {
                case .skip: skipped += 1
                case .send: lines.append(TokenLine(token: token, number: number))
                case .resend(let row):
                    lines.append(TokenLine(token: token, number: number, earlier: row))
                }
            }
        }
        return (lines, false)
    }
}

/// The lines of a feed, one at a time.
struct TokenLines: AsyncSequence, Sendable {
    typealias Element = TokenLine
    typealias Failure = Never

    struct AsyncIterator: AsyncIteratorProtocol {
        let feed: TokenFeed
        var lines: [TokenLine] = []
        var position = 0

        mutating func next() async -> TokenLine? { await self.next(isolation: nil) }

        mutating func next(isolation actor: isolated (any Actor)?) async -> TokenLine? {
            if self.position == self.lines.count {
                self.lines = await self.feed.next()
                self.position = 0
            }
            guard self.position < self.lines.count else { return nil }
            defer { self.position += 1 }
            return self.lines[self.position]
        }
    }

    let feed: TokenFeed

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(feed: self.feed) }
}
