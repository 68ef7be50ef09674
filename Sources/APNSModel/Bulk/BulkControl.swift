import Synchronization

/// The handle of a bulk call while it runs: it changes the rate, pauses, stops, and reports the progress. From any thread.
///
/// Use one control for one run. One that several runs share pauses and stops each of them, gives each of them the whole
/// rate, and shows the progress of the one that began last.
public final class BulkControl: Sendable {
    private struct State {
        var rate: PushRate?
        var isPaused = false
        var isStopped = false
        var progress = BulkProgress()
        /// What the consumer of the last run has been given.
        var given: GivenOutcomes?
        /// How many runs have begun.
        var runs = 0
    }

    private let state: Mutex<State>
    /// Counts changes, so that a run that looks for one looks at one number.
    private let version = Atomic<Int>(0)
    /// Runs that wait until something changes here.
    package let listeners = Listeners()

    /// - Parameter rate: how many pushes are begun in a second; nil: as many as go.
    public init(rate: PushRate? = nil) {
        self.state = Mutex(State(rate: rate))
    }

    /// How many pushes are begun in a second; nil: as many as go. A new value takes hold at once.
    public var rate: PushRate? {
        get { self.state.withLock { $0.rate } }
        set { self.change { $0.rate = newValue } }
    }

    /// Pulls no further element until `resume()`. What is in flight goes on.
    public func pause() { self.change { $0.isPaused = true } }

    /// Ends a pause: elements are pulled again.
    public func resume() { self.change { $0.isPaused = false } }

    /// Stops pulling elements for good. What was pulled is sent, and the run ends when all of it has its outcome;
    /// ``progress`` then says how many elements were pulled. While a ``BulkProgress/hold`` lasts, what was pulled is tried
    /// once more and otherwise ends as `notSent`.
    public func stop() { self.change { $0.isStopped = true } }

    /// Whether `pause()` was called, and `resume()` not since.
    public var isPaused: Bool { self.state.withLock { $0.isPaused } }
    /// Whether `stop()` was called: for good.
    public var isStopped: Bool { self.state.withLock { $0.isStopped } }

    /// How far the run is. `outcomes` is exact at any moment: all that the consumer has been given. The rest is brought up
    /// to date whenever the consumer has taken the outcomes that were ready, and is exact when the run has ended.
    public var progress: BulkProgress {
        self.state.withLock { state in
            var progress = state.progress
            if let given = state.given { progress.outcomes = given.summary }
            return progress
        }
    }

    // MARK: For the run

    /// Grows with each change of what `orders` says.
    package var currentVersion: Int { self.version.load(ordering: .acquiring) }

    /// What the caller can change while the call runs.
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
    /// - Returns: its number, from 1.
    package func begin(_ given: GivenOutcomes) -> Int {
        self.state.withLock { state in
            state.runs += 1
            state.progress = BulkProgress()
            state.given = given
            return state.runs
        }
    }

    /// - Parameter run: which run this is about; only the last one that began is shown.
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

/// How far a bulk call is.
public struct BulkProgress: Sendable, Hashable {
    /// Elements that were taken from the input.
    public var pulled = 0
    /// Pushes without an outcome, queued ones included.
    public var unfinished = 0
    /// Outcomes that were handed to the caller, by kind.
    public var outcomes = BulkSummary()
    /// Why no element is pulled at present: there is no connection, the queue is full, the credential is refused, or
    /// pushes get no response. Elements that were pulled wait for their own deadlines. Nil while pushes are sent.
    public var hold: PushError?
    /// All elements before this one, counted from 0, are done: their outcomes, whatever they are, were handed to the caller,
    /// and the caller has asked for the next one. A checkpoint may say this, if the caller keeps what is to be sent again.
    public var completedPrefix = 0

    /// Nothing done yet.
    public init() {}
}
