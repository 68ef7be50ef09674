import APNSModel
import Logging
import NATSPushQueue
import PushQueue
import Synchronization
import Testing

@testable import APNSRelay

/// A stream in memory, which fails when a test says so.
final class MemoryOutcomeStream: OutcomeStream {
    struct State {
        var messages: [OutcomeMessage] = []
        var sequence: UInt64 = 0
        /// Thrown by all calls.
        var error: QueueError?
        /// How many more messages are taken; nil for any number.
        var room: Int?
        var reads = 0
        var appends = 0
    }

    let state = Mutex(State())

    var cursors: [Int64] { self.state.withLock { $0.messages.map(\.cursor) } }

    func end() async throws(QueueError) -> OutcomeStreamEnd {
        try self.state.withLock { state throws(QueueError) in
            state.reads += 1
            if let error = state.error { throw error }
            return OutcomeStreamEnd(sequence: state.sequence, cursor: state.messages.last?.cursor)
        }
    }

    func append(_ messages: [OutcomeMessage], after sequence: UInt64) async throws(QueueError) -> Bool {
        try self.state.withLock { state throws(QueueError) in
            state.appends += 1
            if let error = state.error { throw error }
            guard sequence == state.sequence else { return false }
            let taken = messages.prefix(state.room ?? .max)
            state.room = state.room.map { $0 - taken.count }
            state.messages += taken
            state.sequence += UInt64(taken.count)
            return taken.count == messages.count
        }
    }

    func close() async {}
}

@Suite(.timeLimit(.minutes(1))) struct OutcomePublisherTests {
    private static let unavailable = QueueError(code: .unavailable, message: "the broker is away")

    private let disk = FeedQueue.Disk()
    private let stream = MemoryOutcomeStream()
    private let clock = ManualQueueClock(QueueTime(secondsSince1970: 1_795_440_000))

    private func settle(_ positions: ClosedRange<Int64>) throws {
        for position in positions { self.disk.settle(try .sample(at: self.clock.now), at: position) }
    }

    private func publisher(_ logger: Logger = FleetFixture.logger, _ queue: FeedQueue? = nil) -> OutcomePublisher {
        OutcomePublisher(
            self.stream,
            queue: queue ?? FeedQueue(self.disk),
            metrics: RelayMetrics(factory: PrometheusMetrics()),
            clock: self.clock,
            logger: logger,
            retention: .seconds(3_600)
        )
    }

    /// Runs a body while a publisher runs.
    private func run(_ publisher: OutcomePublisher, _ body: () async throws -> Void) async throws {
        let task = Task { await publisher.run() }
        defer { task.cancel() }
        try await body()
        task.cancel()
        await task.value
    }

    private func expect(_ cursors: [Int64], sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let isThere = try await eventually { self.stream.cursors.count >= cursors.count }
        #expect(isThere, sourceLocation: sourceLocation)
        #expect(self.stream.cursors == cursors, sourceLocation: sourceLocation)
    }

    @Test("An empty stream begins with the oldest outcome, and a later publisher continues")
    func continues() async throws {
        try self.settle(3...2_505)
        try await self.run(self.publisher()) { try await self.expect(Array(3...2_505)) }
        try self.settle(2_506...2_510)
        let publisher = self.publisher()
        try await self.run(publisher) {
            try await self.expect(Array(3...2_510))
            // Nothing signals these.
            try self.settle(2_511...2_512)
            try await self.expect(Array(3...2_512))
            let isDone = try await eventually { publisher.oldest == nil }
            #expect(isDone)
        }
    }

    @Test("A signal publishes at once")
    func signal() async throws {
        let publisher = self.publisher()
        try await self.run(publisher) {
            let start = ContinuousClock.now
            for position in 1...50 as ClosedRange<Int64> {
                try self.settle(position...position)
                publisher.signal()
                try await self.expect(Array(1...position))
            }
            #expect(start.duration(to: .now) < .seconds(20))
        }
    }

    @Test("If a message in the middle is refused, publishing continues after the last stored one")
    func refusedInTheMiddle() async throws {
        try self.settle(1...100)
        self.stream.state.withLock { $0.room = 40 }
        try await self.run(self.publisher()) {
            try await self.expect(Array(1...40))
            self.stream.state.withLock { $0.room = nil }
            try await self.expect(Array(1...100))
        }
    }

    @Test("While the stream fails, the oldest outcome ages and one line is logged; then everything is published")
    func fails() async throws {
        let log = LineLog()
        let publisher = self.publisher(Logger(label: "test") { _ in log })
        try self.settle(1...5)
        let settled = self.clock.now
        try await self.run(publisher) {
            try await self.expect(Array(1...5))
            self.clock.advance(by: .seconds(30))
            self.stream.state.withLock { $0.error = Self.unavailable }
            try self.settle(6...9)
            publisher.signal()
            // Several attempts.
            let reads = self.stream.state.withLock { $0.reads }
            let isTried = try await eventually { self.stream.state.withLock { $0.reads } >= reads + 2 }
            #expect(isTried)
            #expect(publisher.oldest == settled.advanced(by: .seconds(30)))
            #expect(log.lines.count == 1)
            self.stream.state.withLock { $0.error = nil }
            try await self.expect(Array(1...9))
            let isDone = try await eventually { publisher.oldest == nil && log.lines.count == 2 }
            #expect(isDone, "\(log.lines)")
        }
    }

    @Test("A stream that refuses the next outcome for no visible reason is not asked without a pause")
    func refusesAlways() async throws {
        try self.settle(1...5)
        self.stream.state.withLock { $0.room = 0 }
        let start = ContinuousClock.now
        try await self.run(self.publisher()) {
            let isTried = try await eventually { self.stream.state.withLock { $0.appends } >= 3 }
            #expect(isTried)
            // Two pauses of a second.
            #expect(start.duration(to: .now) > .milliseconds(1_900))
        }
    }

    @Test("If the stream has become empty because of the age of its messages, none is published again")
    func aged() async throws {
        try self.settle(1...5)
        self.clock.advance(by: .seconds(3_000))
        try self.settle(6...8)
        // It had these five, and they have been deleted; the feed still has them.
        self.stream.state.withLock { $0.sequence = 5 }
        self.clock.advance(by: .seconds(601))
        try await self.run(self.publisher()) { try await self.expect([6, 7, 8]) }
    }

    @Test("If the feed is behind the stream, the publisher waits for it")
    func feedIsBehind() async throws {
        try self.settle(1...5)
        let message = OutcomeMessage(cursor: 7, app: "fern", kind: "accepted", body: [])
        self.stream.state.withLock { state in
            state.messages = [message]
            state.sequence = 1
        }
        try await self.run(self.publisher()) {
            try self.settle(6...9)
            try await self.expect([7, 8, 9])
        }
    }

    @Test("Two publishers at once publish each outcome once, in order")
    func two() async throws {
        let publishers = [self.publisher(), self.publisher()]
        let tasks = publishers.map { publisher in Task { await publisher.run() } }
        for round in 0..<50 as Range<Int64> {
            try self.settle((round * 37 + 1)...(round * 37 + 37))
            for publisher in publishers { publisher.signal() }
            await Task.yield()
        }
        try await self.expect(Array(1...1_850))
        for task in tasks {
            task.cancel()
            await task.value
        }
    }

    @Test("An outcome that invalidates a token has a kind of its own; its body is that of the feed")
    func messages() throws {
        let gone = Rejection(status: 410, reason: .unregistered, timestamp: 1_795_000_000_000)
        let id = APNSID.random()
        let outcomes: [PushOutcome] = [
            .accepted(Receipt(apnsID: id)), .superseded(id), .lost(id, attempts: 1),
            .rejected(.rejected(gone, attempts: 1)),
        ]
        let messages = try outcomes.map { outcome in
            OutcomeMessage(
                FeedEntry(cursor: FeedCursor(position: 17), push: try .sample(app: "moss", outcome: outcome))
            )
        }
        #expect(messages.map(\.kind) == ["accepted", "not-sent", "unknown", "invalidToken"])
        #expect(messages.allSatisfy { $0.app == "moss" && $0.cursor == 17 })
        let body = String(decoding: messages[3].body, as: UTF8.self)
        #expect(body.contains(#""cursor":"17""#) && body.contains(#""reason":"Unregistered""#), "\(body)")
    }
}

/// Keeps the log's lines.
private final class LineLog: LogHandler, Sendable {
    private let state = Mutex<[String]>([])

    var metadata: Logger.Metadata {
        get { [:] }
        set { _ = newValue }
    }
    var logLevel: Logger.Level {
        get { .info }
        set { _ = newValue }
    }
    var lines: [String] { self.state.withLock { $0 } }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { nil }
        set { _ = newValue }
    }

    func log(event: LogEvent) { self.state.withLock { $0.append("\(event.message) \(event.metadata ?? [:])") } }
}
