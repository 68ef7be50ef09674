/// Runs one bulk call: pulls, sends, and gives the outcomes. Used by one task at a time.
///
/// It knows elements by numbers only: generic code that a user's module cannot specialise would cost more than the
/// sending.
@usableFromInline
package protocol BulkEngine: AnyObject {
    /// An outcome that is there already, and the number of its element. The number may be reused after the next call.
    func takeReady() -> (index: Int, outcome: PushOutcome)?

    /// The next outcome; nil at the end.
    func next() async -> (index: Int, outcome: PushOutcome)?

    /// Wakes `next()` when an input that had nothing has an element again, or ends.
    var wake: @Sendable () -> Void { get }
}

/// Where an engine gets its elements from.
package struct BulkSource {
    /// Pulls one element and stores it under `index`. `room` is how many may be pulled, this one included.
    package let pull: (_ index: Int, _ room: Int) -> BulkPull
    /// Told that no further element will be asked for. Those that the input has read already are still pulled.
    package let close: () -> Void

    package init(pull: @escaping (_ index: Int, _ room: Int) -> BulkPull, close: @escaping () -> Void) {
        self.pull = pull
        self.close = close
    }
}

/// A sender with an engine of its own. The bulk calls of others run on a ``PlainBulkRun``.
package protocol BulkEngineSender: PushSender {
    func makeBulkEngine(_ source: BulkSource, _ options: BulkOptions, _ control: BulkControl) -> any BulkEngine
}
