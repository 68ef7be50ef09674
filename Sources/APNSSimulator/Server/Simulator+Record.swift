public import APNSModel
internal import NIOCore
internal import NIOPosix
internal import Synchronization

// What the simulator received, and waiting for it.
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
        let id = core.state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                core.state.withLock { $0.waiters[id] = .init(condition: condition, continuation: continuation) }
                let timer = MultiThreadedEventLoopGroup.singleton.next().scheduleTask(in: TimeAmount(bounded: timeout))
                {
                    Self.endWaiting(id, .timedOut, "the ledger did not meet the condition in \(timeout)", core)
                }
                // Evaluates the condition, now that the waiter is registered.
                core.update { $0.waiters[id]?.timer = timer }
                if Task.isCancelled { Self.endWaiting(id, .cancelled, "the waiting task was cancelled", core) }
            }
        } onCancel: {
            Self.endWaiting(id, .cancelled, "the waiting task was cancelled", core)
        }
        try result.get()
    }

    private static func endWaiting(
        _ id: Int,
        _ code: SimulatorError.Code,
        _ message: String,
        _ core: SimulatorCore
    ) {
        let (waiter, ledger) = core.state.withLock { ($0.waiters.removeValue(forKey: id), $0.ledger) }
        let counts =
            "received \(ledger.requestsReceived), processed \(ledger.requestsProcessed), "
            + "connections \(ledger.connectionsOpened)"
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
    ///   - filter: What they must have in common; default: all of them.
    ///   - order: Only those after this position (`PushRecord.order`), for example the last one that you have seen.
    ///   - limit: The most pushes.
    public func received(
        _ filter: PushFilter = PushFilter(),
        after order: Int = 0,
        limit: Int = .max
    ) -> [PushRecord] {
        self.received(filter, PushPage(after: order, limit: limit))
    }

    package func received(_ filter: PushFilter, _ page: PushPage) -> [PushRecord] {
        self.core.state.withLock { $0.ledger.select(filter, page) }
    }

    /// Waits until enough matching pushes have arrived, including those that arrived before the call.
    ///
    /// ```swift
    /// let pushes = try await simulator.waitFor(3, PushFilter(deviceToken: token))
    /// ```
    ///
    /// - Parameters:
    ///   - count: How many to wait for. At most as many as the ledger keeps (`Simulator.Configuration.keep`).
    ///   - filter: What they must have in common; default: nothing.
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
        // The pushes up to `last` have been counted.
        let progress = Mutex((last: order, found: 0, resets: self.core.state.withLock { $0.ledger.resets }))
        do {
            try await self.waitUntil(timeout: timeout) { ledger in
                progress.withLock { progress in
                    if ledger.resets != progress.resets {
                        progress.resets = ledger.resets
                        progress.found = 0
                    }
                    progress.found += ledger.select(filter, PushPage(after: progress.last)).count
                    progress.last = max(progress.last, ledger.lastOrder)
                    return progress.found >= count
                }
            }
        } catch {
            guard error.code == .timedOut else { throw error }
            let found = progress.withLock { $0.found }
            throw SimulatorError(
                code: .timedOut,
                message: "\(found) of \(count) matching pushes arrived in \(timeout)"
            )
        }
        return self.received(filter, after: order, limit: max(count, 0))
    }

    /// The time of a recorded event by the system's clock.
    ///
    /// - Returns: Milliseconds since 1970.
    public func milliseconds(of time: ContinuousClock.Instant) -> Int64 {
        self.core.state.withLock { $0.wallClock(time) }
    }

    /// Numbers of the ledger, without a copy of it.
    package struct Counts: Sendable {
        package var outcomes: [PushRecord.Outcome: Int]
        package var duplicates: Int
        package var responses: [Int: Int]
        package var connectionsOpen: Int
        package var connectionsOpened: Int
        package var kept: Int
        package var keep: Int?
        package var dropped: Int
        package var lastOrder: Int
        package var resets: Int
        /// `lastOrder` at the last reset.
        package var clearedOrder: Int
        package var devices: Int
    }

    package var counts: Counts {
        self.core.state.withLock { state in
            let ledger = state.ledger
            return Counts(
                outcomes: ledger.outcomes,
                duplicates: ledger.duplicates.count,
                responses: ledger.responses,
                connectionsOpen: state.sessions.count,
                connectionsOpened: ledger.connectionsOpened,
                kept: ledger.pushes.count + ledger.broadcasts.count,
                keep: ledger.keep,
                dropped: ledger.dropped,
                lastOrder: ledger.lastOrder,
                resets: ledger.resets,
                clearedOrder: ledger.clearedOrder,
                devices: state.devices.count
            )
        }
    }

    /// Forgets what was received, and removes all faults, states of device tokens, and devices. Keys, topics, channels
    /// and open connections stay. `PushRecord.order` goes on counting.
    public func reset() {
        self.core.update { state in
            state.ledger.clear()
            state.engine.removeAll()
            state.rules.tokenStates = [:]
            state.devices = VirtualDevices()
            state.pausedUntil = nil
        }
    }
}
