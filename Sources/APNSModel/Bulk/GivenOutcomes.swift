import Synchronization

/// Counts the outcomes that the consumer of a bulk call receives, and the elements that it is done with, for readers in
/// other tasks.
///
/// Only the consumer counts, so a load and a store replace an atomic addition.
package final class GivenOutcomes: Sendable {
    private let accepted = Atomic<Int>(0)
    private let rejected = Atomic<Int>(0)
    private let notProcessed = Atomic<Int>(0)
    private let notSent = Atomic<Int>(0)
    private let unknown = Atomic<Int>(0)
    private let prefix = Atomic<Int>(0)
    /// The parts that change rarely: `isFinished`, `stopped` and `rejections`.
    private let rest = Mutex(BulkSummary())

    package init() {}

    package func count(_ outcome: PushOutcome) {
        switch outcome {
        case .accepted: Self.addOne(to: self.accepted)
        case .rejected(let error):
            Self.addOne(to: self.rejected)
            self.rest.withLock { $0.count(rejectedFor: error.reason) }
        case .notProcessed: Self.addOne(to: self.notProcessed)
        case .notSent(let error):
            Self.addOne(to: self.notSent)
            if error.code == .suspectedMisconfiguration { self.rest.withLock { $0.stopped = error } }
        case .unknown: Self.addOne(to: self.unknown)
        }
    }

    package func finish(_ end: BulkEnd) { self.rest.withLock { $0.finish(end) } }

    /// Records that the consumer is done with this many elements at the start of the input.
    package func complete(_ count: UInt64) { self.prefix.store(Int(clamping: count), ordering: .releasing) }

    package var completedPrefix: Int { self.prefix.load(ordering: .acquiring) }

    private static func addOne(to counter: borrowing Atomic<Int>) {
        counter.store(counter.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    }

    package var summary: BulkSummary {
        var summary = self.rest.withLock { $0 }
        summary.accepted = self.accepted.load(ordering: .relaxed)
        summary.rejected = self.rejected.load(ordering: .relaxed)
        summary.notProcessed = self.notProcessed.load(ordering: .relaxed)
        summary.notSent = self.notSent.load(ordering: .relaxed)
        summary.unknown = self.unknown.load(ordering: .relaxed)
        return summary
    }
}
