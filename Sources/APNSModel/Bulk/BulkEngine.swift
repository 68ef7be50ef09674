/// Runs one bulk call: pulls elements, sends pushes and returns outcomes. Used by one task at a time.
///
/// An engine refers to elements by index only: generic code that a user's module cannot specialise would cost more than
/// sending.
@usableFromInline
package protocol BulkEngine: AnyObject {
    /// An outcome that is already available, with the index of its element. The index may be reused after the next
    /// call.
    func takeReady() -> (index: Int, outcome: PushOutcome)?

    /// The next outcome; nil at the end.
    func next() async -> (index: Int, outcome: PushOutcome)?

    /// Records how the call ended. Called once, after `next()` has returned nil.
    ///
    /// - Returns: the outcomes of the call, with its end.
    func finish(_ end: BulkEnd) -> BulkSummary

    /// Wakes `next()` when an input that had no element available has one again, or ends.
    var wake: @Sendable () -> Void { get }
}

/// How a bulk call ended.
@usableFromInline
package struct BulkEnd: Sendable {
    /// Whether the whole input was pulled.
    package let isFinished: Bool
    /// Why the call ended early; nil if it is finished, or if the input threw.
    package let stopped: PushError?

    package init(isFinished: Bool, stopped: PushError?) {
        self.isFinished = isFinished
        self.stopped = stopped
    }
}

/// The source of an engine's elements.
package struct BulkSource {
    /// Pulls one element and stores it under `index`. `room` is the number of elements that may be pulled, including
    /// this one.
    package let pull: (_ index: Int, _ room: Int) -> BulkPull
    /// Announces that the engine requests no further elements. Elements that the input has already read are still
    /// pulled.
    package let close: () -> Void

    package init(pull: @escaping (_ index: Int, _ room: Int) -> BulkPull, close: @escaping () -> Void) {
        self.pull = pull
        self.close = close
    }
}

/// A sender with its own engine. Bulk calls of other senders run on a ``SequentialBulkRun``.
package protocol BulkEngineSender: PushSender {
    func makeBulkEngine(_ source: BulkSource, _ options: BulkOptions, _ control: BulkControl) -> any BulkEngine
}
