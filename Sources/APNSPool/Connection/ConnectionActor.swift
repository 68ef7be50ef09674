// This folder: one connection of the pool. It determines when the connection connects, drains and is replaced, and how
// pushes reach its event loop. Sockets, TLS and HTTP/2 are in APNSTransport. The folder Sending evaluates what a response
// means for a push.

import APNSModel
import APNSBasics
import APNSTransport
import NIOCore
import SupervisedPool
import Synchronization

/// A pool worker: an actor whose executor is its event loop. It opens one `Connection` after another,
/// each with a number. The worker owns the connection that accepts new streams and the connections that drain.
///
/// Tasks send it messages through its mailbox instead of calling the actor. This costs one lock per push, and one
/// wake-up for many pushes. `ConnectionStateMachine` makes all decisions; the actor performs them.
actor ConnectionActor: PoolWorker {
    nonisolated var unownedExecutor: UnownedSerialExecutor { self.loop.executor.asUnownedSerialExecutor() }

    private let loop: any EventLoop
    private let id: WorkerID
    private let pool: Pool<ConnectionActor>
    private let shared: ConnectionSettings
    /// Counts this worker; nil if it is not counted.
    private let tally: WorkerTally.Member?
    /// Also the clock of its connections.
    private let clock: ClientLoopClock
    private let mailbox = ConnectionMailbox()

    private var machine: ConnectionStateMachine
    private(set) var connections: [Int: Connection] = [:]
    // Unchecked: no access begins during another one. To resume a continuation only schedules its task.
    @exclusivity(unchecked) var pending = PendingPushes()
    @exclusivity(unchecked) private var results: TickResults
    /// The connection with pushes of this tick that are not flushed yet; nil if there are none.
    private var unflushed: (number: Int, connection: Connection)?
    /// Whether pushes were cancelled in this tick.
    private var hasCancelled = false
    private var messages: [ConnectionMailbox.Message] = []
    /// Opens when the worker has stopped, and lets `run()` return.
    private let ended = Latch()
    private let failure = Mutex<WireError?>(nil)
    private var isStopping = false
    /// Whether the pool has become smaller, and does not use this worker.
    private var isDismissed = false
    private var isDrained = false
    private var isDegraded = false
    /// One timer for the machine's current state and one for the stall check, so that no timer outlives its reason.
    private var wakeUp: LoopTimer?
    private var stallCheck: LoopTimer?

    init(
        id: WorkerID,
        isBase: Bool,
        pool: Pool<ConnectionActor>,
        settings: ConnectionSettings,
        tally: WorkerTally.Member? = nil,
        clock: any MonotonicClock,
        loop: any EventLoop
    ) {
        self.id = id
        self.pool = pool
        self.results = TickResults(pool: pool)
        self.shared = settings
        self.tally = tally
        self.clock = ClientLoopClock(clock)
        self.loop = loop
        self.machine = ConnectionStateMachine(
            isBase: isBase,
            streamCap: settings.streamCap,
            backoff: settings.backoff,
            unanswered: UnansweredPushes(warning: settings.silenceWarning),
            generator: SplitMix64(seed: settings.seed.map { $0 &+ UInt64(id.index.magnitude) }),
            takeReplacement: { settings.replacements.take(now: $0) }
        )
    }

    // MARK: Lifecycle

    /// How long a cancelled worker waits for its connections to close.
    private static let closingTime = Duration.seconds(1)

    /// Runs until the supervisor stops it. Throws only when an invariant is broken.
    nonisolated func run(_ context: ChildContext) async throws {
        context.onShutdown { self.post(.stop) }
        self.shared.pathLosses.add(self) { self.post(.pathLost) }
        self.pool.register(self, id: self.id, for: context)
        context.started()
        await withTaskCancellationHandler {
            _ = await self.ended.wait()
        } onCancel: {
            self.post(.stop)
        }
        if !self.ended.isOpen { await self.endAfterCancellation() }
        self.shared.pathLosses.remove(ObjectIdentifier(self))
        self.pool.report(.gone, from: self.id)
        if let failure = self.failure.withLock({ $0 }) { throw failure }
    }

    /// Waits until the connections have closed, but not for long: nothing runs on an event loop that was shut down or
    /// is blocked.
    nonisolated private func endAfterCancellation() async {
        // In a new task, because the present one is cancelled.
        let hasEnded = await Task {
            await self.ended.wait(until: self.clock.now.advanced(by: Self.closingTime), clock: self.clock.base)
        }.value
        guard !hasEnded else { return }
        for message in self.mailbox.close() { self.refuse(message) }
        // If the event loop is only slow, it closes the connections later.
        self.loop.execute { self.assumeIsolated { $0.stop() } }
    }

    nonisolated func connect(_ reason: PoolWorkerConnectReason) {
        self.post(.connect)
    }

    nonisolated func disconnect(_ reason: PoolWorkerDisconnectReason) {
        switch reason {
        case .idle: self.post(.disconnect)
        case .surplus: self.post(.dismiss)
        case .lifetime: self.post(.replace)
        }
    }

    // MARK: Mailbox

    /// Makes one attempt to send a push, and waits for its result. The attempt's stream is returned to the pool first.
    /// Cancelling the task resets the stream.
    nonisolated func send(_ attempt: PushAttempt) async -> StreamResult {
        await withTaskCancellationHandler {
            await Self.withContinuation { self.post(attempt, $0) }
        } onCancel: {
            attempt.isCancelled.store(true, ordering: .releasing)
            self.post(.cancel(attempt))
        }
    }

    /// Not inlined, so that its temporary values do not occupy the task's memory until the response arrives.
    @inline(never)
    nonisolated private func post(_ attempt: PushAttempt, _ continuation: StreamContinuation) {
        attempt.begin(continuation)
        self.post(.submit(attempt))
    }

    @inline(__always)
    nonisolated private static func withContinuation(_ body: (StreamContinuation) -> Void) async -> StreamResult {
        #if DEBUG
            await withCheckedContinuation(body)
        #else
            await withUnsafeContinuation(body)
        #endif
    }

    /// Sends pushes of a bulk call. Their results are delivered to its collector.
    nonisolated func send(_ batch: PushBatch) {
        self.post(.submitAll(batch))
    }

    nonisolated private func post(_ message: ConnectionMailbox.Message) {
        switch self.mailbox.put(message) {
        case .accepted:
            break
        case .wakeReader:
            self.loop.execute { self.assumeIsolated { $0.readMailbox() } }
        case .closed:
            self.refuse(message)
        }
    }

    /// Completes pushes that no connection will send.
    nonisolated private func refuse(_ message: ConnectionMailbox.Message) {
        let result = StreamResult.notSent(.closedLocally)
        switch message {
        case .submit(let attempt):
            self.pool.checkin(attempt.origin, count: 1)
            attempt.end(result)
        case .submitAll(let batch):
            self.pool.checkin(batch.origin, count: batch.indices.count)
            batch.collector.deliver(batch.indices.map { BulkCollector.Item(index: Int($0), result: result) })
        case .cancel, .connect, .disconnect, .dismiss, .replace, .pathLost, .stop:
            break
        }
    }

    /// The number of batched pushes after which the connection writes, even within a tick. nghttp2 needs twice as much
    /// memory for an unwritten request as for a written one.
    private static let mostUnwritten = 128

    private func readMailbox() {
        // Swaps the two arrays, so that neither is ever copied.
        var messages: [ConnectionMailbox.Message] = []
        swap(&messages, &self.messages)
        self.mailbox.take(into: &messages)
        var unwritten = 0
        for message in messages {
            switch message {
            case .submit(let attempt):
                self.accept(attempt)
            case .submitAll(let batch):
                self.accept(batch)
                unwritten += batch.indices.count
                if unwritten >= Self.mostUnwritten {
                    unwritten = 0
                    self.flush()
                }
            case .cancel(let attempt):
                self.cancel(attempt)
            case .connect:
                self.isDismissed = false
                self.perform(self.machine.connect())
            case .disconnect:
                self.flush()
                self.perform(self.machine.disconnect())
            case .dismiss:
                self.flush()
                self.perform(self.machine.disconnect())
                self.isDismissed = true
                self.noteDismissal()
            case .replace:
                self.flush()
                self.perform(self.machine.replace())
            case .pathLost:
                self.flush()
                if let number = self.machine.readyConnection { self.connections[number]?.siblingLostPath() }
            case .stop:
                self.flush()
                self.stop()
            }
        }
        messages.removeAll(keepingCapacity: true)
        swap(&messages, &self.messages)
        self.flush()
    }

    /// Returns the connection for new pushes; nil if there is none. Starts timing the push with this tag, unless
    /// another push is being timed. The caller must therefore submit this push next.
    private func connection(for tag: StreamTag) -> Connection? {
        guard let number = self.machine.willSubmit(tag: tag, now: self.clock.now) else { return nil }
        // Most pushes of a tick use the same connection. To remember it is cheaper than to look it up again.
        if let unflushed, unflushed.number == number { return unflushed.connection }
        guard let connection = self.connections[number] else { return nil }
        self.unflushed = (number, connection)
        return connection
    }

    private func accept(_ attempt: PushAttempt) {
        let tag = self.pending.insert(attempt)
        // If the task was cancelled before the attempt was in the mailbox, `cancel` found no tag.
        guard !attempt.isCancelled.load(ordering: .acquiring) else {
            self.deliver([.notSent(.cancelled, tag: tag)])
            return
        }
        guard let connection = self.connection(for: tag), let submission = attempt.takeSubmission() else {
            self.deliver([.notSent(.noCapacity, tag: tag)])
            return
        }
        connection.enqueue(submission)
    }

    private func accept(_ batch: PushBatch) {
        guard !batch.indices.isEmpty else { return }
        let tag = self.pending.insert(batch)
        guard let connection = self.connection(for: tag) else {
            self.deliver(batch.indices.indices.map { .notSent(.noCapacity, tag: tag.advanced(by: $0)) })
            return
        }
        connection.enqueue(batch.requests, firstTag: tag)
    }

    /// Writes everything that was submitted in this tick at once.
    private func flush() {
        if self.hasCancelled {
            self.hasCancelled = false
            for connection in self.connections.values { connection.flush() }
        }
        // The connection may have closed since, and is then no longer in the dictionary.
        guard let number = self.unflushed.take()?.number, let connection = self.connections[number] else { return }
        connection.flush()
        self.perform(
            self.machine.submitted(
                connection: number,
                open: connection.openStreams,
                isNearlyExhausted: connection.isNearlyExhausted,
                now: self.clock.now
            )
        )
    }

    /// Cancels a push. A push that has not been written yet ends as not sent. Usually, a push is written at the end of
    /// the tick in which it was submitted. The resets of all pushes that are cancelled in a tick are written together.
    private func cancel(_ attempt: PushAttempt) {
        guard let tag = attempt.tag else { return }
        self.hasCancelled = true
        for connection in self.connections.values { connection.cancel(tag: tag) }
    }

    // MARK: Results

    private func deliver(_ results: [StreamResult]) {
        for result in results { self.results.add(result, of: &self.pending) }
        self.results.deliver(&self.pending)
    }

    /// Lets the machine evaluate the results of a tick, and reports its findings to the shared objects.
    private func evaluate(_ results: [StreamResult], of number: Int) {
        let now = self.clock.now
        let evaluation = self.machine.evaluate(
            results,
            connection: number,
            quietSince: self.connections[number].map { MonotonicInstant($0.quietSince) } ?? now,
            now: now
        )
        self.perform(evaluation.actions)
        self.shared.weather.observe(evaluation.weather, now: now)
        if evaluation.provesCredential { self.shared.credentialBreaker.accepted() }
        if let latency = evaluation.latency { self.pool.report(.latency(latency), from: self.id) }
        if let time = evaluation.responseTime { self.shared.events.responseTimes.record(nanoseconds: time) }
    }

    private func fault(_ error: WireError, of number: Int) -> ConnectionFault {
        ConnectionFault(error) {
            self.shared.credentialBreaker.refused(
                .certificate(error.message),
                by: .init(worker: self.id, connection: number),
                isFresh: self.machine.isFresh(connection: number),
                now: self.clock.now
            )
        }
    }

    // MARK: Actions

    private func perform(_ actions: [ConnectionStateMachine.Action]) {
        self.noteDegradation()
        for action in actions {
            switch action {
            case .open(let number): self.open(number)
            case .drain(let number): self.connections[number]?.drain()
            case .close(let number): self.connections[number]?.close()
            case .wakeAt(let instant): self.wake(at: instant)
            case .checkForStall(let instant, let number): self.checkForStall(number, at: instant)
            case .report(let report): self.pool.report(report, from: self.id)
            case .refuseCredential(let refusal, let number, let isFresh):
                self.shared.credentialBreaker.refused(
                    refusal,
                    by: .init(worker: self.id, connection: number),
                    isFresh: isFresh,
                    now: self.clock.now
                )
            }
        }
    }

    private func open(_ number: Int) {
        var configuration = self.shared.connection
        configuration.clock = self.clock
        let connection = Connection(
            id: number,
            configuration: configuration,
            loop: self.loop,
            delegate: self
        )
        self.connections[number] = connection
        self.tally?.connects()
        connection.open()
    }

    private func wake(at instant: MonotonicInstant) {
        self.wakeUp?.cancel()
        self.wakeUp = self.schedule(instant) { actor in
            // The timer may fire early because of rounding, but the machine must not be woken before its time.
            actor.perform(actor.machine.wake(now: max(actor.clock.now, instant)))
        }
    }

    private func checkForStall(_ number: Int, at instant: MonotonicInstant) {
        self.stallCheck?.cancel()
        self.stallCheck = self.schedule(instant) { actor in
            guard let connection = actor.connections[number] else { return }
            let now = max(actor.clock.now, instant)
            let actions = actor.machine.checkForStall(
                connection: number,
                open: connection.openStreams,
                lastResponse: MonotonicInstant(connection.lastResponse),
                now: now
            )
            actor.perform(actions)
        }
    }

    private func schedule(
        _ instant: MonotonicInstant,
        _ body: @escaping @Sendable (isolated ConnectionActor) -> Void
    ) -> LoopTimer {
        self.clock.schedule(at: NIODeadline(instant), on: self.loop) { self.assumeIsolated { body($0) } }
    }

    private func noteDegradation() {
        let isDegraded = self.machine.isDegraded
        guard isDegraded != self.isDegraded else { return }
        self.isDegraded = isDegraded
        self.shared.events.connection(isDegraded: isDegraded)
    }

    private func connectionClosed(_ number: Int, _ error: WireError) {
        self.connections[number] = nil
        if error.code == .invariantBroken {
            // The worker ends, and its supervisor counts the failure.
            self.failure.withLock { $0 = $0 ?? error }
            self.stop()
        } else {
            let fault = self.fault(error, of: number)
            if fault == .lostPath { self.shared.pathLosses.signal() }
            self.perform(self.machine.closed(connection: number, fault: fault, error: error, now: self.clock.now))
        }
        self.noteDismissal()
        self.finishIfStopped()
    }

    private func noteDismissal() {
        if self.isDismissed, self.connections.isEmpty { self.tally?.isDismissed() }
    }

    private func stop() {
        guard !self.isStopping else { return }
        self.isStopping = true
        // A scheduled timer retains the actor.
        self.wakeUp?.cancel()
        self.stallCheck?.cancel()
        let late = self.mailbox.close()
        self.perform(self.machine.stop())
        self.noteDegradation()
        for message in late { self.refuse(message) }
        self.finishIfStopped()
    }

    /// Lets `run()` return after every connection has closed, and gives every remaining push its result.
    private func finishIfStopped() {
        guard self.isStopping, self.connections.isEmpty, !self.isDrained else { return }
        self.isDrained = true
        self.deliverLeftovers()
        self.ended.open()
    }

    /// Gives a result to pushes that no connection has reported. There are none unless a connection has lost count of
    /// them. They end as unknown, because they may have been written.
    private func deliverLeftovers() {
        self.deliver(self.pending.waiting.map { StreamResult(tag: $0, ending: .unknown, cause: .closedLocally) })
    }
}

// A connection calls its delegate on the event loop, which is the actor's executor, and passes only values. So the
// actor can enter its isolation without a hop.
extension ConnectionActor: ConnectionDelegate {
    nonisolated func connection(_ id: Int, isReadyWithMaxConcurrentStreams limit: Int) {
        self.assumeIsolated {
            $0.machine.streamCap = $0.shared.streamCap
            $0.perform($0.machine.ready(connection: id, limit: limit))
            $0.shared.credentialBreaker.connected(now: $0.clock.now)
        }
    }

    nonisolated func connection(_ id: Int, streamLimitChangedTo limit: Int) {
        self.assumeIsolated { $0.perform($0.machine.limitChanged(connection: id, to: limit)) }
    }

    nonisolated func connection(_ id: Int, isGoingAway error: WireError) {
        self.assumeIsolated { actor in
            let fault = actor.fault(error, of: id)
            let now = actor.clock.now
            actor.perform(actor.machine.goingAway(connection: id, fault: fault, error: error, now: now))
        }
    }

    nonisolated func connection(_ id: Int, finished results: [StreamResult]) {
        self.assumeIsolated { actor in
            actor.evaluate(results, of: id)
            actor.deliver(results)
        }
    }

    nonisolated func connection(_ id: Int, isClosed error: WireError) {
        self.assumeIsolated { $0.connectionClosed(id, error) }
    }
}
