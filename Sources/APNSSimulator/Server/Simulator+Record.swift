public import APNSModel
internal import APNSBasics
internal import NIOCore
internal import NIOPosix
internal import Synchronization

// The record of what the simulator received, and waiting for pushes.
extension Simulator {
    /// A copy of the current ledger: everything that the simulator has received and done so far.
    public var record: Ledger {
        self.core.state.withLock { $0.ledger }
    }

    /// How often the push with this id was processed, without a copy of the ledger.
    public func processedCount(of id: APNSID) -> Int {
        self.core.state.withLock { $0.ledger.processedCount(of: id) }
    }

    /// Whether the push with this id was processed, whether or not its response arrived.
    public func processed(apnsID id: APNSID) -> Bool { self.processedCount(of: id) > 0 }

    /// How often each kind of fault was applied, by the names in scripts.
    public var faultCounts: [String: Int] {
        self.core.state.withLock { $0.ledger.faults }
    }

    /// The number of open connections.
    public var openConnections: Int {
        self.core.state.withLock { $0.sessions.count }
    }

    /// The numbers of the open connections, in ascending order.
    public var connectionNumbers: [Int] {
        self.core.state.withLock { $0.sessions.keys.sorted() }
    }

    /// Waits until the ledger meets a condition. Evaluates it immediately and after each change, without polling.
    ///
    /// - Parameters:
    ///   - timeout: the longest time to wait.
    ///   - condition: runs under the simulator's lock, so it must not call the simulator.
    /// - Throws: `SimulatorError` with the code `timedOut` or `cancelled`.
    public func waitUntil(
        timeout: Duration = .seconds(30),
        _ condition: @escaping @Sendable (Ledger) -> Bool
    ) async throws(SimulatorError) {
        let core = self.core
        let result = OneShot<Result<Void, SimulatorError>>()
        let id = core.state.withLock { state -> Int? in
            if condition(state.ledger) {
                result.give(.success(()))
            } else if state.isStopped {
                result.give(.failure(Self.stopped))
            } else {
                state.nextWaiter += 1
                state.waiters[state.nextWaiter] = .init(condition: condition, result: result)
                return state.nextWaiter
            }
            return nil
        }
        if let id {
            let timer = MultiThreadedEventLoopGroup.singleton.next().scheduleTask(in: TimeAmount(bounded: timeout)) {
                Self.endWaiting(id, .timedOut, "the ledger did not meet the condition in \(timeout)", core)
            }
            let isWaiting = core.state.withLock { state in
                state.waiters[id]?.timer = timer
                return state.waiters[id] != nil
            }
            if !isWaiting { timer.cancel() }
            _ = await result.wait { Self.endWaiting(id, .cancelled, "the waiting task was cancelled", core) }
        }
        try await result.wait().get()
    }

    static let stopped = SimulatorError(code: .cancelled, message: "the simulator was stopped")

    private static func endWaiting(
        _ id: Int,
        _ code: SimulatorError.Code,
        _ message: String,
        _ core: SimulatorCore
    ) {
        let (waiter, counts) = core.state.withLock { state in
            let ledger = state.ledger
            return (
                state.waiters.removeValue(forKey: id),
                "received \(ledger.requestsReceived), processed \(ledger.requestsProcessed), "
                    + "connections \(ledger.connectionsOpened)"
            )
        }
        waiter?.end(.failure(SimulatorError(code: code, message: "\(message) (\(counts))")))
    }

    // MARK: Pushes

    /// The recorded pushes and broadcasts that match, in the order in which the simulator decided them.
    ///
    /// ```swift
    /// let pushes = simulator.received(PushFilter(topic: "com.example.app", outcome: .accepted))
    /// ```
    ///
    /// - Parameters:
    ///   - filter: The values that a push must have; default: selects all pushes.
    ///   - order: Selects only pushes after this position (`PushRecord.order`), for example that of the last push you
    ///     have seen.
    ///   - limit: The maximum number of pushes.
    public func received(
        _ filter: PushFilter = PushFilter(),
        after order: Int = 0,
        limit: Int = .max
    ) -> [PushRecord] {
        self.received(filter, PushPage(after: order, limit: limit))
    }

    package func received(_ filter: PushFilter, _ page: PushPage) -> [PushRecord] {
        // Hints are found by reading payloads: not under the lock, on which all connections wait.
        if filter.hasHints != nil { return self.record.select(filter, page) }
        return self.core.state.withLock { $0.ledger.select(filter, page) }
    }

    /// The last push before this one to the same device token or channel; nil if there is none, or too
    /// many others are in between.
    package func previous(of push: PushRecord) -> PushRecord? {
        self.core.state.withLock { $0.ledger.previous(of: push) }
    }

    /// Waits until enough matching pushes have arrived, including those that arrived before the call.
    ///
    /// ```swift
    /// let pushes = try await simulator.waitFor(3, PushFilter(deviceToken: token))
    /// ```
    ///
    /// - Parameters:
    ///   - count: How many to wait for.
    ///   - filter: The values that a push must have; default: counts all pushes.
    ///   - order: Counts only those after this position (`PushRecord.order`).
    ///   - timeout: The longest time to wait.
    /// - Returns: The first `count` of them.
    /// - Throws: `SimulatorError` with the code `timedOut`, with a message that says how many arrived, or `cancelled`.
    @discardableResult
    public func waitFor(
        _ count: Int,
        _ filter: PushFilter = PushFilter(),
        after order: Int = 0,
        timeout: Duration = .seconds(10)
    ) async throws(SimulatorError) -> [PushRecord] {
        let (pushes, isComplete) = try await self.collect(count, filter, after: order, timeout: timeout)
        guard isComplete else {
            throw SimulatorError(
                code: .timedOut,
                message: "\(pushes.count) of \(count) matching pushes arrived in \(timeout)"
            )
        }
        return pushes
    }

    /// Like `waitFor`, but returns what has arrived when the time is over.
    package func collect(
        _ count: Int,
        _ filter: PushFilter,
        after order: Int,
        timeout: Duration
    ) async throws(SimulatorError) -> (pushes: [PushRecord], isComplete: Bool) {
        // Pushes are kept here as they arrive, because the ledger may drop them before the last one arrives. Those up
        // to `last` have been examined.
        struct Progress {
            var last: Int
            var pushes: [PushRecord] = []
            var resets: Int
        }
        let resets = self.core.state.withLock { $0.ledger.resets }
        let progress = Mutex(Progress(last: order, resets: resets))
        do {
            try await self.waitUntil(timeout: timeout) { ledger in
                progress.withLock { progress in
                    if ledger.resets != progress.resets {
                        progress.resets = ledger.resets
                        progress.pushes = []
                    }
                    let page = PushPage(after: progress.last, limit: max(count - progress.pushes.count, 0))
                    progress.pushes += ledger.select(filter, page)
                    progress.last = max(progress.last, ledger.lastOrder)
                    return progress.pushes.count >= count
                }
            }
        } catch {
            guard error.code == .timedOut else { throw error }
            return (progress.withLock { $0.pushes }, false)
        }
        return (progress.withLock { $0.pushes }, true)
    }

    /// Totals of the ledger, read without a copy of it.
    package struct Counts: Sendable {
        package var outcomes: [PushRecord.Outcome: Int]
        package var duplicates: Int
        package var responses: [Int: Int]
        package var connectionsOpen: Int
        package var connectionsOpened: Int
        package var connectionsFailed: Int
        package var kept: Int
        package var keep: Int?
        package var dropped: Int
        package var lastOrder: Int
        package var resets: Int
        /// `lastOrder` at the last reset.
        package var clearedOrder: Int
        package var devices: Int
    }

    package var counts: Counts { self.core.state.withLock { $0.counts } }

    /// The failed connections, without a copy of the ledger.
    package var failedConnections: (total: Int, groups: [FailedConnection]) {
        self.core.state.withLock { ($0.ledger.connectionsFailed, $0.ledger.failedConnections) }
    }

    /// The counts, and the pushes after a position, of one moment.
    package func batch(after order: Int, limit: Int) -> (counts: Counts, pushes: [PushRecord]) {
        self.core.state.withLock { state in
            (state.counts, state.ledger.select(PushFilter(), PushPage(after: order, limit: limit)))
        }
    }

    /// Forgets what was received: pushes, counts and failed connections. Faults, states of device tokens, devices and
    /// settings stay. `PushRecord.order` continues.
    public func clearRecord() { self.core.update { $0.ledger.clear() } }

    /// Forgets what was received, including the provider tokens, and removes all faults, states of device tokens, and
    /// devices. `offlineStorage` and `limitsProviderTokenUpdates` get the values of the configuration. Keys, topics,
    /// channels and open connections stay. `PushRecord.order` continues.
    public func reset() {
        self.core.update { state in
            state.ledger.clear()
            state.engine.removeAll()
            state.rules.tokenStates = [:]
            state.devices = VirtualDevices()
            state.devices.offlineStorage = state.configuration.offlineStorage
            state.limitProviderTokenUpdates(state.configuration.limitsProviderTokenUpdates)
            state.verifier.forgetUpdates()
            state.pausedUntil = nil
            state.clockOffset = SimulatorState.clockOffset(state.configuration)
        }
    }
}

extension SimulatorState {
    fileprivate var counts: Simulator.Counts {
        Simulator.Counts(
            outcomes: self.ledger.outcomes,
            duplicates: self.ledger.duplicates.count,
            responses: self.ledger.responses,
            connectionsOpen: self.sessions.count,
            connectionsOpened: self.ledger.connectionsOpened,
            connectionsFailed: self.ledger.connectionsFailed,
            kept: self.ledger.pushes.count + self.ledger.broadcasts.count,
            keep: self.ledger.keep,
            dropped: self.ledger.dropped,
            lastOrder: self.ledger.lastOrder,
            resets: self.ledger.resets,
            clearedOrder: self.ledger.clearedOrder,
            devices: self.devices.count
        )
    }
}
