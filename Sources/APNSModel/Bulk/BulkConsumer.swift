/// The consumer's half of a bulk call: the outcomes that wait for the consumer, and the progress of the call.
///
/// An engine adds outcomes, and its consumer takes them. Confined to the consumer's task, except that the call's
/// `BulkControl` can be read from any thread: its outcomes and its completed prefix change as the consumer takes
/// outcomes, everything else with ``report()``.
package struct BulkConsumer {
    private struct Delivery {
        var index: Int
        /// The number of elements pulled before this one.
        var sequence: UInt64
        var outcome: PushOutcome
    }

    private var ready: [Delivery] = []
    private var position = 0
    /// The element whose outcome the consumer is processing, until it requests the next one.
    private var handedOut: UInt64?
    private var prefix = CompletedPrefix()
    private let given = GivenOutcomes()
    private let control: BulkControl
    /// The number that the control gave this run; 0 before ``begin()``.
    private var run = 0
    /// What the engine reports. `outcomes` and `completedPrefix` are filled in by ``report()``.
    package var progress = BulkProgress()

    package init(_ control: BulkControl) {
        self.control = control
    }

    /// Makes this run the one whose progress the control shows. Called once, before the first element is pulled.
    package mutating func begin() {
        self.run = self.control.begin(self.given)
    }

    /// Whether ``begin()`` was called.
    package var hasBegun: Bool { self.run != 0 }

    /// Whether the consumer has taken all outcomes.
    package var isEmpty: Bool { self.position == self.ready.count }

    /// The number of outcomes that the consumer has not taken.
    package var count: Int { self.ready.count - self.position }

    /// Adds the outcome of an element.
    ///
    /// - Parameter sequence: the number of elements pulled before this one.
    package mutating func add(_ index: Int, _ sequence: UInt64, _ outcome: consuming PushOutcome) {
        self.ready.append(Delivery(index: index, sequence: sequence, outcome: outcome))
    }

    /// Takes the next outcome, with the index of its element. The consumer is done with the one before.
    package mutating func take() -> (index: Int, outcome: PushOutcome)? {
        if let done = self.handedOut {
            self.handedOut = nil
            self.prefix.complete(done)
            self.given.complete(self.prefix.count)
        }
        guard self.position < self.ready.count else {
            self.ready.removeAll(keepingCapacity: true)
            self.position = 0
            return nil
        }
        let delivery = self.ready[self.position]
        self.position += 1
        self.handedOut = delivery.sequence
        self.given.count(delivery.outcome)
        return (delivery.index, delivery.outcome)
    }

    /// Records how the call ended.
    ///
    /// - Returns: the outcomes of the call, with its end.
    package func finish(_ end: BulkEnd) -> BulkSummary {
        self.given.finish(end)
        return self.given.summary
    }

    /// Reports the progress to the control.
    package mutating func report() {
        self.progress.outcomes = self.given.summary
        self.progress.completedPrefix = self.given.completedPrefix
        self.control.report(self.progress, of: self.run)
    }
}
