public import PushQueue

/// The tests that every engine must pass.
///
/// Run each case with a fixture of its own, for example with Swift Testing:
///
/// ```swift
/// @Test(arguments: QueueConformance.cases)
/// func conformance(_ conformance: ConformanceCase) async throws {
///     try await conformance.run(MyFixture())
/// }
/// ```
public enum QueueConformance {
    /// All cases.
    public static var cases: [ConformanceCase] {
        EnqueueCases.all + ClaimCases.all + MarkCases.all + SettleCases.all + ReturnCases.all + ParkCases.all
            + SupersedeCases.all + OverdueCases.all + OnePushCases.all + FeedCases.all + StateCases.all
            + BatchCases.all + PruneCases.all + CrashCases.all + RaceCases.all + SharingCases.all + HistoryCases.all
    }
}

/// One behaviour of a queue.
public struct ConformanceCase: Sendable, CustomStringConvertible {
    /// The behaviour, as a sentence.
    public let name: String
    /// The abilities that the fixture needs for this case, besides its functions.
    let needs: Set<QueueAbility>
    private let body: @Sendable (Harness) async throws -> Void

    init(
        _ name: String,
        needs: Set<QueueAbility> = [],
        _ body: @escaping @Sendable (Harness) async throws -> Void
    ) {
        self.name = name
        self.needs = needs
        self.body = body
    }

    public var description: String { self.name }

    /// Runs the case. Does nothing if the fixture lacks an ability that the case needs.
    ///
    /// - Parameter fixture: a new fixture with an empty queue. Only this case uses it.
    /// - Throws: `ConformanceFailure` if the engine does not have this behaviour, or the engine's error.
    public func run(_ fixture: any QueueFixture) async throws {
        guard self.needs.isDisjoint(with: fixture.lacks) else { return }
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

/// Abilities that a fixture or its engine may lack.
public enum QueueAbility: Sendable, Hashable, CaseIterable {
    /// Time passes only in `QueueFixture.advance(by:)`.
    case manualClock
    /// The time of day can jump: `QueueFixture.jump(by:)`.
    case clockJump
    /// The time of day can jump implausibly: `QueueFixture.jumpImplausibly(by:)`.
    case implausibleJump
    /// The queue has a capacity: `QueueFixture.open(capacity:)`.
    case capacity
    /// Several processes can share the queue: `QueueFixture.join()`.
    case sharing
}

/// Opens the queue of one case and controls its surroundings.
public protocol QueueFixture: Sendable {
    /// The abilities that this fixture lacks. Cases that need one of them are skipped.
    var lacks: Set<QueueAbility> { get }

    /// A duration that is longer than a few calls take. With a manual clock it can have any length; with a real one,
    /// use about 100 ms.
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
    /// The default for engines without an expiry clock. It is not called if ``lacks`` contains `implausibleJump`.
    public func jumpImplausibly(by duration: Duration) async {}

    /// The default for engines without an expiry clock. It is not called if ``lacks`` contains `implausibleJump`.
    public func confirmJump() async {}

    /// The default for engines whose queues only one process can use. It is not called if ``lacks`` contains `sharing`.
    public func join() async throws -> any PushQueue {
        throw QueueError(code: .inUse, message: "Only one process can use the queue.")
    }
}
