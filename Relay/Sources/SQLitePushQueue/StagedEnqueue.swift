import GRDB
import PushQueue

/// A call of `enqueue` with so many pushes that they are stored in parts.
struct StagedEnqueue: Sendable {
    /// The number of pushes in a part. A part takes about 20 ms. Only calls with more than two parts are stored in
    /// parts.
    static let part: Int64 = 500

    private enum Phase {
        /// Finishes an earlier call that failed: queues or deletes its pushes.
        case waiting
        case storing
        /// Deletes the stored pushes, and then ends the call with this result.
        case undoing(Result<[EnqueueResult], QueueError>)
        case queueing
    }

    private let pushes: [NewPush]
    private let isPartial: Bool
    private let capacity: Int?
    private var results: [EnqueueResult] = []
    private var phase = Phase.waiting
    /// The staged pushes after the last part of this call.
    private var stage: StagedPushes?

    init(_ pushes: [NewPush], isPartial: Bool, capacity: Int?) {
        self.pushes = pushes
        self.isPartial = isPartial
        self.capacity = capacity
    }

    /// Whether the next part must survive a power failure. Only the part that completes the call must. Earlier parts
    /// precede it in the log, and later parts can be repeated.
    var isDurable: Bool {
        if case .storing = self.phase { self.pushes.count - self.results.count <= Self.part } else { false }
    }

    /// Whether all pushes of the call are stored, although the call has not ended.
    var isComplete: Bool { if case .queueing = self.phase { true } else { false } }

    /// Performs the next part.
    ///
    /// - Returns: the result of the call; nil if parts remain.
    /// - Throws: `QueueError` with the code `unavailable` if another call has deleted the pushes of earlier parts.
    mutating func next(_ transaction: WriteTransaction) throws -> Result<[EnqueueResult], QueueError>? {
        let isOwn = self.stage == transaction.state.staged
        switch self.phase {
        case .waiting:
            if try transaction.finishStaged(limit: Self.part) { self.phase = .storing }
        case .storing:
            guard isOwn else { throw Self.interrupted }
            try self.store(transaction)
        // If another call has ended this stage, it has deleted or queued the pushes.
        case .undoing(let result):
            if try !isOwn || transaction.finishStaged(limit: Self.part) { return result }
        case .queueing:
            if try !isOwn || transaction.finishStaged(limit: Self.part) { return .success(self.results) }
        }
        self.stage = transaction.state.staged
        return nil
    }

    private static let interrupted = QueueError(
        code: .unavailable,
        message: "Another call interrupted this one. None of its pushes is stored. Repeat the call."
    )

    private mutating func store(_ transaction: WriteTransaction) throws {
        let end = min(self.results.count + Int(Self.part), self.pushes.count)
        do throws(any Error) {
            for push in self.pushes[self.results.count..<end] {
                self.results.append(try transaction.stage(push, capacity: self.capacity))
            }
        } catch let error as QueueError {
            self.phase = .undoing(.failure(error))
            return
        }
        guard end == self.pushes.count else { return }
        if !self.isPartial, self.results.contains(where: { if case .conflict = $0 { true } else { false } }) {
            self.phase = .undoing(.success(self.results))
        } else {
            try transaction.completeStaged()
            self.phase = .queueing
        }
    }
}

extension SQLitePushQueue {
    /// Stores pushes: a few in one transaction, many in parts.
    func store(_ pushes: [NewPush], isPartial: Bool) async throws(QueueError) -> [EnqueueResult] {
        try self.calls.begin()
        defer { self.calls.end() }
        let capacity = self.options.capacity
        let file = self.file
        let result: Result<[EnqueueResult], QueueError> = await withCheckedContinuation { continuation in
            guard pushes.count <= StagedEnqueue.part * 2 else {
                let call = StagedEnqueue(pushes, isPartial: isPartial, capacity: capacity)
                return self.group.add(.storing(call, file: file) { continuation.resume(returning: $0) })
            }
            self.group.add(
                .storing(pushes, isPartial: isPartial, capacity: capacity, file: file) {
                    continuation.resume(returning: $0)
                }
            )
        }
        do {
            return try result.get()
        } catch {
            throw self.queueError(error)
        }
    }
}

extension GroupCommit.Job {
    typealias EndOfEnqueue = @Sendable (Result<[EnqueueResult], QueueError>) -> Void

    /// Stores pushes in one transaction.
    static func storing(
        _ pushes: [NewPush],
        isPartial: Bool,
        capacity: Int?,
        file: String,
        end: @escaping EndOfEnqueue
    ) -> Self {
        Self(
            isDurable: true,
            isIntake: true,
            run: { transaction in
                guard try transaction.finishStaged(limit: StagedEnqueue.part) else {
                    return .rest(
                        .storing(pushes, isPartial: isPartial, capacity: capacity, file: file, end: end)
                    )
                }
                let results = try transaction.enqueue(pushes, isPartial: isPartial, capacity: capacity)
                return .done { end(.success(results)) }
            },
            fail: { error in
                if let conflict = error as? EnqueueConflict { return end(.success(conflict.results)) }
                end(.failure(QueueError(error, file: file)))
            }
        )
    }

    /// Stores pushes in parts: performs the next part of the call, and then the remaining ones.
    static func storing(_ call: StagedEnqueue, file: String, end: @escaping EndOfEnqueue) -> Self {
        Self(
            isDurable: call.isDurable,
            isIntake: true,
            run: { transaction in
                var call = call
                guard let result = try call.next(transaction) else {
                    return .rest(.storing(call, file: file, end: end))
                }
                return .done { end(result) }
            },
            fail: { error in
                var error = QueueError(error, file: file)
                if call.isComplete, error.code != .closed {
                    error = QueueError(
                        code: .undecided,
                        message: "The pushes are stored. They are queued as soon as the file can be written again. "
                            + error.message
                    )
                }
                end(.failure(error))
            }
        )
    }
}
