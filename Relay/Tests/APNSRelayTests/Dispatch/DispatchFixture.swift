import APNSModel
import Foundation
import Logging
import PushQueue
import Synchronization
import Testing

@testable import APNSRelay

/// Delivers by a closure, and records what it was given.
struct ScriptedSender: PushSender {
    private let log = SentPushes()
    let respond: @Sendable (APNSID, _ count: Int) async -> PushOutcome

    /// The ids in the order in which they were delivered.
    var delivered: [APNSID] { self.log.ids.withLock { $0 } }
    var payloads: [String] { self.log.payloads.withLock { $0 } }
    var tokens: Set<DeviceToken> { self.log.tokens.withLock { $0 } }

    func deliver(_ push: PreparedPush, to token: DeviceToken, options: DeliveryOptions) async -> PushOutcome {
        let id = options.apnsID ?? .random()
        self.log.tokens.withLock { _ = $0.insert(token) }
        self.log.payloads.withLock { $0.append(String(decoding: push.payload, as: UTF8.self)) }
        let count = self.log.ids.withLock { ids in
            ids.append(id)
            return ids.count
        }
        return await self.respond(id, count)
    }

    private final class SentPushes: Sendable {
        let ids = Mutex<[APNSID]>([])
        let payloads = Mutex<[String]>([])
        let tokens = Mutex<Set<DeviceToken>>([])
    }

    static func accept(_ id: APNSID) -> PushOutcome { .accepted(Receipt(apnsID: id)) }

    static func fail(_ code: PushError.Code, _ certainty: Certainty, _ id: APNSID) -> PushOutcome {
        .failed(PushError(code: code, certainty: certainty, apnsID: id, message: "a test"))
    }
}

/// A dispatcher over a real queue in a temporary folder.
struct DispatchFixture {
    let folder: URL
    let queue: any PushQueue
    let dispatcher: Dispatcher
    let context: DispatchContext
    let metrics = RelayMetrics(factory: PrometheusMetrics())
    let route = Route(app: "fern", environment: "production", lane: .bulk, caller: "test")

    /// - Parameters:
    ///   - settings: the limits.
    ///   - pausedApps: the apps that an operator has paused.
    ///   - clock: the clock of the queue and of the dispatcher.
    ///   - wrap: puts something around the queue that the dispatcher uses.
    ///   - deviceToken: decrypts the device token of a push.
    ///   - sender: the sender of a route.
    init(
        settings: DispatchSettings = DispatchSettings(),
        pausedApps: PausedApps = PausedApps([]),
        clock: any QueueClock = SystemQueueClock(),
        wrap: (any PushQueue) -> any PushQueue = { $0 },
        deviceToken: @escaping @Sendable (DeviceToken, Route) -> DeviceToken? = { token, _ in token },
        sender: @escaping Dispatcher.SenderOfRoute
    ) async throws {
        self.folder = FileManager.default.temporaryDirectory.appendingPathComponent("dispatch-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        var storage = StorageSettings()
        storage.file = self.folder.appendingPathComponent("queue.sqlite").path
        self.queue = try await storage.openFile(clock: clock, logger: logger)
        let used = wrap(self.queue)
        self.context = DispatchContext(
            queue: used,
            clock: clock,
            settings: settings,
            rules: RetryRules(maxAttempts: settings.maxAttempts),
            window: InFlightWindow(limit: settings.maxInFlight),
            outbox: Outbox(queue: used, metrics: self.metrics, logger: logger),
            metrics: self.metrics,
            logger: logger,
            pausedApps: pausedApps,
            batches: ActiveBatches(queue: used, clock: clock),
            appRates: AppRates(clock: clock),
            guardedClock: clock as? GuardedClock,
            deviceToken: deviceToken
        )
        self.dispatcher = Dispatcher(
            context: self.context,
            retention: Retention(),
            stopSending: {},
            sender: sender
        )
    }

    /// What a new process has, with the same queue.
    func restarted() -> DispatchContext {
        DispatchContext(
            queue: self.context.queue,
            clock: self.context.clock,
            settings: self.context.settings,
            rules: self.context.rules,
            window: InFlightWindow(limit: self.context.settings.maxInFlight),
            outbox: Outbox(queue: self.context.queue, metrics: self.metrics, logger: self.context.logger),
            metrics: self.metrics,
            logger: self.context.logger,
            batches: ActiveBatches(queue: self.context.queue, clock: self.context.clock),
            appRates: AppRates(clock: self.context.clock)
        )
    }

    /// Stores pushes that are due now.
    @discardableResult
    func store(
        _ count: Int,
        _ route: Route? = nil,
        deadline: Duration = .seconds(3_600),
        resendsUnknown: Bool = false
    ) async throws -> [APNSID] {
        let now = self.context.clock.now
        let pushes = try (0..<count).map { number in
            NewPush(
                id: .random(),
                route: route ?? self.route,
                token: try DeviceToken("ab\(String(number % 10))0"),
                push: try PreparedPush(topic: "com.a", pushType: .alert, payload: Array("{}".utf8)),
                notBefore: now,
                deadline: now.advanced(by: deadline),
                resendsUnknown: resendsUnknown
            )
        }
        _ = try await self.queue.enqueue(pushes, isPartial: false)
        self.dispatcher.signal()
        return pushes.map(\.id)
    }

    /// Runs the dispatcher while the body runs, and then closes the fixture.
    func running(_ body: () async throws -> Void) async throws {
        let task = Task { await self.dispatcher.run() }
        do {
            try await body()
        } catch {
            task.cancel()
            await task.value
            throw error
        }
        task.cancel()
        await task.value
        try await self.close()
    }

    /// Closes the queue and removes the folder.
    func close() async throws {
        await self.queue.close()
        try FileManager.default.removeItem(at: self.folder)
    }

    /// Polls the queue until a condition holds. Fails the test if it does not hold in time.
    func expect(
        sourceLocation: SourceLocation = #_sourceLocation,
        _ condition: (QueueCounts) async throws -> Bool
    ) async throws {
        let isMet = try await eventually { try await condition(try await self.queue.counts()) }
        #expect(isMet, sourceLocation: sourceLocation)
    }

    /// The certainties of all settled pushes.
    func outcomes() async throws -> [APNSID: PushOutcome] {
        let page = try await self.queue.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 1_000)
        return Dictionary(page.entries.compactMap { entry in entry.push.outcome.map { (entry.push.id, $0) } }) { $1 }
    }
}
