public import PushQueue

/// The tests that both engines must pass: each engine's test target runs each case with a fixture of its own. The random
/// histories compare an engine with a model. A case of its own is for what they do not reach.
public enum QueueConformance {
    /// All cases.
    public static var cases: [ConformanceCase] {
        EnqueueCases.all + ClaimCases.all + MarkCases.all + SettleCases.all + ReturnCases.all + ParkCases.all
            + SupersedeCases.all + OverdueCases.all + OnePushCases.all + FeedCases.all + StateCases.all
            + BatchCases.all + PruneCases.all + CrashCases.all + RestoreCases.all + RaceCases.all + SharingCases.all
            + HistoryCases.all
    }
}

/// One behaviour of a queue.
public struct ConformanceCase: Sendable, CustomStringConvertible {
    /// The behaviour, as a sentence.
    public let name: String
    /// Whether several processes must be able to share the queue.
    private let needsSharing: Bool
    private let body: @Sendable (Harness) async throws -> Void

    init(
        _ name: String,
        needsSharing: Bool = false,
        _ body: @escaping @Sendable (Harness) async throws -> Void
    ) {
        self.name = name
        self.needsSharing = needsSharing
        self.body = body
    }

    public var description: String { self.name }

    /// Runs the case. Does nothing if it needs a queue that processes can share, and the fixture has none.
    ///
    /// - Parameter fixture: a new fixture with an empty queue. Only this case uses it.
    /// - Throws: `ConformanceFailure` if the engine does not have this behaviour, or the engine's error.
    public func run(_ fixture: any QueueFixture) async throws {
        guard !self.needsSharing || fixture.isShared else { return }
        let harness = try await Harness(fixture)
        do {
            try await self.body(harness)
        } catch {
            await harness.queue.close()
            throw error
        }
        await harness.queue.close()
    }
}

/// A fault of an engine.
public struct ConformanceFailure: Error, CustomStringConvertible {
    public var text: String
    /// The file in this library that contains the expectation.
    public var file: String
    public var line: Int

    public var description: String { "\(self.text) (\(self.file):\(self.line))" }
}

/// Opens the queue of one case and controls its surroundings.
public protocol QueueFixture: Sendable {
    /// Whether several processes can share the queue. If not, cases that need that are skipped.
    var isShared: Bool { get }

    /// A unit of time that is longer than a few calls take. Time passes only in ``advance(by:)``.
    var tick: Duration { get }

    /// The time of day of the queue.
    var now: QueueTime { get }

    /// Opens the queue. The first call opens an empty queue; each later call follows `close` and opens the same queue.
    ///
    /// - Parameter capacity: the maximum number of pushes without an outcome; nil for no limit.
    func open(capacity: Int?) async throws -> any PushQueue

    /// Discards everything that SIGKILL would lose at this moment, and opens the queue again as a new process does.
    /// Calls may be running; their results are ignored.
    ///
    /// - Parameter queue: the queue that is open now. It is not used again.
    func crash(_ queue: any PushQueue) async throws -> any PushQueue

    /// Discards everything that SIGKILL would lose at this moment, as an older backup would, says that the queue was
    /// restored, and opens it again as a new process does.
    ///
    /// - Parameter queue: the queue that is open now. It is not used again.
    /// - Returns: the queue, and what it has done because of the restore; nil if it did not notice it.
    func restore(_ queue: any PushQueue, _ afterFailover: AfterFailover) async throws -> (
        queue: any PushQueue, restore: QueueRestore?
    )

    /// Opens the queue again, as another process does while the first one uses it. The case closes it.
    func join() async throws -> any PushQueue

    /// Lets time pass for the time of day and for leases.
    func advance(by duration: Duration) async

    /// Sets the time of day forward or back, as a correction by NTP does. Time for leases does not change.
    func jump(by duration: Duration) async

    /// Sets the time of day forward, but not the time that decides whether pushes are overdue (`QueueClock.expiry`).
    func jumpImplausibly(by duration: Duration) async

    /// Accepts the time of day: `QueueClock.expiry` equals it again.
    func confirmJump() async
}

extension QueueFixture {
    /// The default for queues that only one process can use. It is not called then.
    public func join() async throws -> any PushQueue {
        throw QueueError(code: .inUse, message: "Only one process can use the queue.")
    }
}
