import Synchronization

/// Controls a running bulk call: changes its rate, pauses it, stops it and reports its progress. Thread-safe.
///
/// ```swift
/// let control = BulkControl()
/// async let summary = client.sendAll(notification, to: deviceTokens, options: BulkOptions(control: control))
/// control.rate = .perSecond(500)
/// print(control.progress.outcomes.total, "pushes have ended")
/// control.stop()
/// print(await summary.accepted, "were accepted")
/// ```
///
/// Use one control per run. If several runs share a control, pausing and stopping apply to all of them, each run gets
/// the full rate, and the progress is that of the run that started last.
public final class BulkControl: Sendable {
    private struct State {
        var rate: PushRate?
        var isPaused = false
        var isStopped = false
        var progress = BulkProgress()
        /// The outcomes that the consumer of the last run has received.
        var given: GivenOutcomes?
        /// How many runs have started.
        var runs = 0
    }

    private let state: Mutex<State>
    /// Counts changes, so that a run can detect a change by reading one number.
    private let version = Atomic<Int>(0)
    /// Runs that wait for a change of this control.
    package let listeners = Listeners()

    /// - Parameter rate: the most pushes started per second; nil for no limit.
    public init(rate: PushRate? = nil) {
        self.state = Mutex(State(rate: rate))
    }

    /// The most pushes started per second; nil for no limit. A new value takes effect immediately.
    public var rate: PushRate? {
        get { self.state.withLock { $0.rate } }
        set { self.change { $0.rate = newValue } }
    }

    /// Pulls no further element until `resume()`. Pushes in flight continue.
    public func pause() { self.change { $0.isPaused = true } }

    /// Ends a pause: the run pulls elements again.
    public func resume() { self.change { $0.isPaused = false } }

    /// Stops pulling elements permanently.
    ///
    /// Pulled elements are still sent, and the run ends when all of them have their outcomes; ``progress`` then shows
    /// how many elements were pulled, and ``BulkProgress/isFinished`` is false. During a ``BulkProgress/hold``, each pulled element gets one more attempt and
    /// otherwise ends as `notSent`.
    public func stop() { self.change { $0.isStopped = true } }

    /// Whether the run is paused: `pause()` was called, and `resume()` has not been called since.
    public var isPaused: Bool { self.state.withLock { $0.isPaused } }
    /// Whether `stop()` was called. It cannot be undone.
    public var isStopped: Bool { self.state.withLock { $0.isStopped } }

    /// The progress of the run.
    ///
    /// `outcomes` and `completedPrefix` are always exact: they count every outcome that the consumer has received, and
    /// every element that it has moved past. The end of the run is known as soon as its loop has ended. The other values are updated each time the consumer has taken all
    /// available outcomes, and are exact once the run has ended.
    public var progress: BulkProgress {
        self.state.withLock { state in
            var progress = state.progress
            if let given = state.given {
                // The prefix first: it never counts an element whose outcome is not counted yet.
                progress.completedPrefix = given.completedPrefix
                progress.outcomes = given.summary
            }
            return progress
        }
    }

    // MARK: For the run

    /// Increases with each change of `orders`.
    package var currentVersion: Int { self.version.load(ordering: .acquiring) }

    /// The settings that the caller can change during the call.
    package struct Orders: Equatable {
        package var rate: PushRate?
        package var isPaused: Bool
        package var isStopped: Bool

        package init(rate: PushRate? = nil, isPaused: Bool = false, isStopped: Bool = false) {
            self.rate = rate
            self.isPaused = isPaused
            self.isStopped = isStopped
        }
    }

    package var orders: Orders {
        self.state.withLock { Orders(rate: $0.rate, isPaused: $0.isPaused, isStopped: $0.isStopped) }
    }

    /// Registers a new run.
    ///
    /// - Returns: the number of the run, from 1.
    package func begin(_ given: GivenOutcomes) -> Int {
        self.state.withLock { state in
            state.runs += 1
            state.progress = BulkProgress()
            state.given = given
            return state.runs
        }
    }

    /// - Parameter run: the number of the reporting run. Only the progress of the run that started last is kept.
    package func report(_ progress: BulkProgress, of run: Int) {
        self.state.withLock { if $0.runs == run { $0.progress = progress } }
    }

    private func change(_ body: (inout State) -> Void) {
        self.state.withLock { state in
            body(&state)
            self.version.wrappingAdd(1, ordering: .releasing)
        }
        self.listeners.signal()
    }
}

/// The progress of a bulk call.
public struct BulkProgress: Sendable, Hashable {
    /// Elements pulled from the input.
    public var pulled = 0
    /// Pulled elements without an outcome, including queued ones.
    public var unfinished = 0
    /// Outcomes that the caller has received, by kind.
    public var outcomes = BulkSummary()
    /// Why the call currently pulls no elements; nil while pushes are sent.
    ///
    /// The reason is that no connection exists, the queue is full, the credential is refused, or pushes get no
    /// response. Elements already pulled wait until their own deadlines.
    public var hold: PushError?
    /// The number of elements at the start of the input that are all done: the caller has received their outcomes,
    /// whatever they are, and has requested the next one. Use it as a checkpoint if you also record which elements need
    /// to be resent.
    public var completedPrefix = 0

    /// Whether the run reached the end of its input: each element has its outcome. False while the run goes on, and if
    /// it ended early; `outcomes.stopped` then contains the reason.
    ///
    /// ```swift
    /// let deliveries = client.deliveries(of: notification, to: deviceTokens)
    /// for await delivery in deliveries { print(delivery.outcome.certainty) }
    /// if !deliveries.control.progress.isFinished { print("not all were sent") }
    /// ```
    public var isFinished: Bool { self.outcomes.isFinished }

    /// No progress yet.
    public init() {}
}
