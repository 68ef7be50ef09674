import APNSModel

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Moves the contents of a queue to an unused queue of any engine: pushes without an outcome, the outcomes that are kept
/// with their positions in the feed, idempotency keys, and the relay's small values with given prefixes. The payloads of
/// settled pushes are left behind.
///
/// Both queues have a note of the move from its beginning. A relay does not use a queue with a note. The note of the source
/// says that the move is complete before the target loses its own, so at no time can both be used. A move that was
/// interrupted continues where it stopped when it is run again.
public struct QueueMove: Sendable {
    /// What a relay must know before it uses a queue.
    public struct Note: Sendable, Hashable, Codable {
        /// Random; the same in both queues.
        var id: String
        /// Whether this queue is the source.
        var isSource: Bool
        /// The other queue, for people.
        var other: String
        /// In the source: whether everything was moved.
        var isComplete = false
        /// In the target: the last position of each kind that it has.
        var outcomes: Int64?
        var pushes: Int64?
        var keys: Int64?

        /// Why the queue cannot be used, and the remedy.
        var message: String {
            if self.isComplete { return "This queue was moved to \(self.other). Use that one." }
            return self.isSource
                ? "This queue is being moved to \(self.other). Run apns-relay move again to finish, or with --cancel."
                : "The move of \(self.other) to this queue is not complete. Run apns-relay move again to finish."
        }
    }

    public struct Progress: Sendable, Hashable {
        public var outcomes = 0
        public var pushes = 0
        public var keys = 0
        /// Pushes that relays are sending. The move waits until each has an outcome, or its lease has expired.
        public var inFlight = 0

        public init() {}
    }

    static let noteKey = "move"

    private let source: any MovablePushQueue
    private let target: any MovablePushQueue
    private let places: (source: String, target: String)
    private let prefixes: [String]
    private let batch: Int
    private let report: @Sendable (Progress) async throws -> Void

    /// - Parameters:
    ///   - source: the queue with the contents. It must be open, and stay open.
    ///   - target: the unused queue.
    ///   - places: the names of both, for people.
    ///   - prefixes: the prefixes of the keys of values to move.
    ///   - batch: how many rows to move in a transaction.
    ///   - report: called after each transaction. If it throws, the move stops as if it was interrupted.
    public init(
        from source: any MovablePushQueue,
        to target: any MovablePushQueue,
        places: (source: String, target: String),
        valuesWithPrefixes prefixes: [String],
        batch: Int = 1_000,
        report: @escaping @Sendable (Progress) async throws -> Void = { _ in }
    ) {
        self.source = source
        self.target = target
        self.places = places
        self.prefixes = prefixes
        self.batch = batch
        self.report = report
    }

    // MARK: For relays

    /// - Throws: `QueueError` (`unusable`) if the queue is part of a move.
    public static func requireNone(of queue: any PushQueue) async throws(QueueError) {
        if let note = try await Self.note(of: queue) { throw QueueError(code: .unusable, message: note.message) }
    }

    /// Gives a move up, so that the source can be used again. What the target has got is useless then.
    ///
    /// - Throws: `QueueError`: `unusable` if the move was complete, or if the queue is not the source of a move.
    public static func cancel(_ source: any MovablePushQueue) async throws(QueueError) {
        guard let note = try await Self.note(of: source), note.isSource, !note.isComplete else {
            let note = try await Self.note(of: source)
            throw QueueError(
                code: .unusable,
                message: note.map { "The move cannot be cancelled. \($0.message)" } ?? "This queue is not being moved."
            )
        }
        try await source.setValue(nil, forKey: Self.noteKey)
        try await source.unseal()
    }

    private static func note(of queue: any PushQueue) async throws(QueueError) -> Note? {
        guard let value = try await queue.value(forKey: Self.noteKey) else { return nil }
        do {
            return try JSONDecoder().decode(Note.self, from: Data(value))
        } catch {
            throw QueueError(code: .unusable, message: "This queue is part of a move that a newer version began.")
        }
    }

    private static func bytes(_ note: Note) throws(QueueError) -> [UInt8] {
        do {
            return Array(try JSONEncoder().encode(note))
        } catch {
            throw QueueError(code: .unusable, message: "The note of the move cannot be coded: \(error)")
        }
    }

    // MARK: The move

    /// Moves everything, or what an interrupted move has left.
    ///
    /// - Returns: what this call has moved.
    /// - Throws: `QueueError`: `unusable` if the queues are not a pair that can be moved; the errors of the queues; the error
    ///   of `report`.
    public func run() async throws -> Progress {
        var progress = Progress()
        guard var note = try await self.begin() else { return progress }
        if try await Self.note(of: self.source)?.isComplete != true {
            try await self.waitForFlight(&progress)
            try await self.source.seal(.everything)
            if note.outcomes == nil {
                try await self.target.adopt(try await self.source.feedBounds())
            }
            try await self.moveOutcomes(&note, &progress)
            try await self.movePushes(&note, &progress)
            try await self.moveKeys(&note, &progress)
            for prefix in self.prefixes {
                for (key, value) in try await self.source.values(withPrefix: prefix) {
                    try await self.target.setValue(value, forKey: key)
                }
            }
            try await self.compare()
            let complete = Note(id: note.id, isSource: true, other: self.places.target, isComplete: true)
            try await self.source.setValue(try Self.bytes(complete), forKey: Self.noteKey)
        }
        try await self.target.unseal()
        try await self.target.setValue(nil, forKey: Self.noteKey)
        return progress
    }

    /// Leaves notes in both queues.
    ///
    /// - Returns: the target's note; nil if everything was moved before.
    private func begin() async throws(QueueError) -> Note? {
        let atSource = try await Self.note(of: self.source)
        let atTarget = try await Self.note(of: self.target)
        if let atSource, !atSource.isSource { throw QueueError(code: .unusable, message: atSource.message) }
        if let atTarget, atTarget.isSource { throw QueueError(code: .unusable, message: atTarget.message) }
        if let atSource, let atTarget, atSource.id == atTarget.id { return atTarget }
        if let atSource, atSource.isComplete {
            guard atTarget == nil, try await !self.target.isUnused() else {
                throw QueueError(code: .unusable, message: atSource.message)
            }
            return nil
        }
        guard try await self.target.isUnused() else {
            throw QueueError(
                code: .unusable,
                message: "The target has been used. Move to an empty database or to a new file."
            )
        }
        let id = String(UInt64.random(in: 0...UInt64.max), radix: 16)
        let new = Note(id: id, isSource: false, other: self.places.source)
        try await self.target.setValue(try Self.bytes(new), forKey: Self.noteKey)
        try await self.target.seal(.everything)
        let source = Note(id: id, isSource: true, other: self.places.target)
        try await self.source.setValue(try Self.bytes(source), forKey: Self.noteKey)
        return new
    }

    /// Waits until no push is claimed or written.
    private func waitForFlight(_ progress: inout Progress) async throws {
        try await self.source.seal(.newWork)
        while true {
            _ = try await self.source.expireLeases()
            // Pushes that have ended enter the feed.
            _ = try await self.source.settleOverdue(limit: 0)
            let counts = try await self.source.counts()
            progress.inFlight = counts.claimed + counts.written
            try await self.report(progress)
            if progress.inFlight == 0 { return }
            try await Task.sleep(for: .seconds(1))
        }
    }

    private func moveOutcomes(_ note: inout Note, _ progress: inout Progress) async throws {
        while true {
            let start = note.outcomes ?? 0
            let page = try await self.source.outcomes(
                after: FeedCursor(position: start),
                apps: nil,
                kind: .outcomes,
                limit: self.batch
            )
            note.outcomes = max(page.cursor?.position ?? start, start)
            guard note.outcomes != start || !page.entries.isEmpty else { return }
            progress.outcomes += page.entries.count
            try await self.store(QueuePart(outcomes: page.entries), note, progress)
        }
    }

    private func movePushes(_ note: inout Note, _ progress: inout Progress) async throws {
        while true {
            let pushes = try await self.source.unsettledPushes(after: note.pushes ?? 0, limit: self.batch)
            guard let last = pushes.last else { return }
            note.pushes = last.position
            progress.pushes += pushes.count
            try await self.store(QueuePart(pushes: pushes), note, progress)
        }
    }

    private func moveKeys(_ note: inout Note, _ progress: inout Progress) async throws {
        while true {
            let keys = try await self.source.settledKeys(after: note.keys ?? 0, limit: self.batch)
            guard let last = keys.last else { return }
            note.keys = last.position
            progress.keys += keys.count
            try await self.store(QueuePart(keys: keys), note, progress)
        }
    }

    private func store(_ part: QueuePart, _ note: Note, _ progress: Progress) async throws {
        try await self.target.store(part, value: try Self.bytes(note), forKey: Self.noteKey)
        try await self.report(progress)
    }

    /// The last check before the source gives its contents up.
    private func compare() async throws(QueueError) {
        let source = try await self.source.counts().routes.filter { $0 != QueueCounts.OfRoute(route: $0.route) }
        let target = try await self.target.counts().routes.filter { $0 != QueueCounts.OfRoute(route: $0.route) }
        guard source == target else {
            throw QueueError(
                code: .unusable,
                message: "The target does not have the source's pushes. The source is as it was: report this."
            )
        }
        let bounds = (source: try await self.source.feedBounds(), target: try await self.target.feedBounds())
        guard bounds.source.next == bounds.target.next else {
            throw QueueError(
                code: .unusable,
                message: "The target does not have the source's outcomes. The source is as it was: report this."
            )
        }
    }
}
