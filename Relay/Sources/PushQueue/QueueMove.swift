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
/// From the beginning, each queue has a note about the move, and no relay uses a queue with a note. At the end, the source's
/// note is changed to "complete" first. Only then is the target's note removed. So both can never be used at once. A move
/// that was interrupted continues where it stopped when it is run again.
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
        /// In the target: the last position of each kind that was copied. Positions are the source's.
        var outcomes: Int64?
        var pushes: Int64?
        var keys: Int64?

        /// Why the queue cannot be used, and the remedy.
        var message: String {
            if self.isComplete { return "This queue was moved to \(self.other). Use that one." }
            return self.isSource
                ? """
                This queue is being moved to \(self.other). Run apns-relay move again to finish it. To give it up, run it \
                with --from and --cancel.
                """ : "The move of \(self.other) to this queue is not complete. Run apns-relay move again to finish it."
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
        if let (note, _) = try await Self.note(of: queue) { throw QueueError(code: .unusable, message: note.message) }
    }

    /// Gives a move up, so that the source can be used again. The target cannot be used after that: delete it.
    ///
    /// - Throws: `QueueError`: `unusable` if the move was complete, or if the queue is not the source of a move.
    public static func cancel(_ source: any MovablePushQueue) async throws(QueueError) {
        guard let (note, bytes) = try await Self.note(of: source) else {
            // A move that was given up may have left the seal.
            try await source.unseal()
            throw QueueError(code: .unusable, message: "This queue is not being moved.")
        }
        guard note.isSource, !note.isComplete else {
            throw QueueError(code: .unusable, message: "The move cannot be cancelled. \(note.message)")
        }
        // With another id, neither a move that runs nor one that is run again can go on with its target.
        let ending = try Self.bytes(Note(id: Self.newID(), isSource: true, other: note.other))
        try await Self.exchange(source, bytes, for: ending)
        try await source.unseal()
        try await Self.exchange(source, ending, for: nil)
    }

    private static func newID() -> String { String(UInt64.random(in: 0...UInt64.max), radix: 16) }

    /// Changes the note of a queue, unless another command has changed it.
    private static func exchange(
        _ queue: any PushQueue,
        _ old: [UInt8]?,
        for new: [UInt8]?
    ) async throws(QueueError) {
        if try await queue.exchangeValue(new, forKey: Self.noteKey, expecting: old) { return }
        // The answer to an earlier try may have been lost.
        guard try await queue.value(forKey: Self.noteKey) != new else { return }
        throw QueueError(
            code: .unusable,
            message: "Another apns-relay move has changed this move at the same time. Let one run at a time."
        )
    }

    private static func note(of queue: any PushQueue) async throws(QueueError) -> (note: Note, bytes: [UInt8])? {
        guard let value = try await queue.value(forKey: Self.noteKey) else { return nil }
        do {
            return (try JSONDecoder().decode(Note.self, from: Data(value)), value)
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
        guard let begun = try await self.begin() else { return progress }
        var note = begun.note
        if let atSource = begun.atSource {
            try await self.waitForFlight(&progress)
            try await self.source.seal(.everything)
            // A move that was cancelled meanwhile ends here.
            try await Self.exchange(self.source, atSource, for: atSource)
            if note.outcomes == nil {
                try await self.target.adopt(try await self.source.feedBounds())
            }
            try await self.moveOutcomes(&note, &progress)
            try await self.movePushes(&note, &progress)
            try await self.moveKeys(&note, &progress)
            for prefix in self.prefixes {
                var last: String?
                while true {
                    let values = try await self.source.values(withPrefix: prefix, after: last, limit: 1_000)
                    for (key, value) in values { try await self.target.setValue(value, forKey: key) }
                    guard values.count == 1_000, let end = values.last?.key else { break }
                    last = end
                }
            }
            try await self.compare()
            let complete = Note(id: note.id, isSource: true, other: self.places.target, isComplete: true)
            try await Self.exchange(self.source, atSource, for: try Self.bytes(complete))
        }
        try await self.target.unseal()
        try await self.target.setValue(nil, forKey: Self.noteKey)
        return progress
    }

    /// Leaves notes in both queues.
    ///
    /// - Returns: the target's note, and the source's note as it is stored, or nil if the move is complete but for the end.
    ///   Nil if nothing is left to do.
    private func begin() async throws(QueueError) -> (note: Note, atSource: [UInt8]?)? {
        let atSource = try await Self.note(of: self.source)
        let atTarget = try await Self.note(of: self.target)
        if let (note, _) = atSource, !note.isSource { throw QueueError(code: .unusable, message: note.message) }
        if let (note, _) = atTarget, note.isSource { throw QueueError(code: .unusable, message: note.message) }
        if let atSource, let atTarget, atSource.note.id == atTarget.note.id {
            return (atTarget.note, atSource.note.isComplete ? nil : atSource.bytes)
        }
        if let (note, _) = atSource, note.isComplete {
            guard atTarget == nil, note.other == self.places.target else {
                throw QueueError(code: .unusable, message: note.message)
            }
            return nil
        }
        try await self.source.checkMovable()
        try await self.target.checkMovable()
        try await self.requireUnused()
        let id = Self.newID()
        let new = Note(id: id, isSource: false, other: self.places.source)
        try await Self.exchange(self.target, atTarget?.bytes, for: try Self.bytes(new))
        try await self.target.seal(.everything)
        try await self.requireUnused()
        let bytes = try Self.bytes(Note(id: id, isSource: true, other: self.places.target))
        try await Self.exchange(self.source, atSource?.bytes, for: bytes)
        return (new, bytes)
    }

    private func requireUnused() async throws(QueueError) {
        guard try await self.target.isUnused() else {
            throw QueueError(
                code: .unusable,
                message: "The target has been used. Move to an empty database or to a new file."
            )
        }
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

    /// The last check before the source gives its contents up: they may have changed after a failover.
    private func compare() async throws(QueueError) {
        let source = try await self.source.counts().routes.filter { $0 != QueueCounts.OfRoute(route: $0.route) }
        let target = try await self.target.counts().routes.filter { $0 != QueueCounts.OfRoute(route: $0.route) }
        guard source == target else {
            throw QueueError(
                code: .unusable,
                message: "The target lacks pushes. Give the move up (--cancel), and move to a new target."
            )
        }
        let bounds = (source: try await self.source.feedBounds(), target: try await self.target.feedBounds())
        guard bounds.source.next == bounds.target.next else {
            throw QueueError(
                code: .unusable,
                message: "The target lacks outcomes. Give the move up (--cancel), and move to a new target."
            )
        }
    }
}
