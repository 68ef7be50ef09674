import APNSModel
import HTTP2Wire
import NIOCore
import SupervisedPool

typealias LoopDeadline = NIODeadline

/// A pool worker: an actor whose executor is its event loop, and the owner of the session that takes new streams and
/// of those that drain.
///
/// Tasks reach it through its mailbox, not by actor calls: one lock for a push and one wake-up for many. All
/// decisions are `ConnectionStateMachine`'s; this is the shell that performs them.
actor ConnectionActor: PoolWorker {
    nonisolated var unownedExecutor: UnownedSerialExecutor { self.loop.executor.asUnownedSerialExecutor() }

    private let loop: any EventLoop
    private let id: WorkerID
    private let pool: Pool<ConnectionActor>
    private let shared: ConnectionSettings
    private let clock: any MonotonicClock
    private let mailbox = ConnectionMailbox()

    private var machine: ConnectionStateMachine
    private var generator = SystemRandomNumberGenerator()
    private var connections: [Int: Connection] = [:]
    private var pending = PendingPushes()
    private var messages: [ConnectionMailbox.Message] = []
    private var ending: CheckedContinuation<Void, Never>?
    private var failure: WireError?
    private var isStopping = false
    private var isDrained = false

    init(
        id: WorkerID,
        isBase: Bool,
        pool: Pool<ConnectionActor>,
        settings: ConnectionSettings,
        clock: any MonotonicClock,
        loop: any EventLoop
    ) {
        self.id = id
        self.pool = pool
        self.shared = settings
        self.clock = clock
        self.loop = loop
        self.machine = ConnectionStateMachine(
            isBase: isBase,
            streamCap: settings.streamCap,
            backoff: Backoff(minimum: settings.backoffMinimum, maximum: settings.backoffMaximum)
        )
    }

    // MARK: Life

    /// Runs until the supervisor stops it. Throws only when an invariant is broken.
    func run(_ context: ChildContext) async throws {
        context.onShutdown { self.post(.stop) }
        self.pool.register(self, id: self.id)
        context.started()
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if self.isDrained {
                    continuation.resume()
                } else {
                    self.ending = continuation
                }
            }
        } onCancel: {
            self.post(.stop)
        }
        self.pool.report(.gone, from: self.id)
        if let failure { throw failure }
    }

    nonisolated func connect(_ reason: PoolWorkerConnectReason) {
        self.post(.connect)
    }

    nonisolated func disconnect(_ reason: PoolWorkerDisconnectReason) {
        self.post(reason == .idle ? .disconnect : .replace)
    }

    // MARK: Mailbox

    /// Sends one push and waits for what became of it. Cancelling the task resets the stream.
    nonisolated func send(_ request: HTTP2Request, deadline: LoopDeadline) async -> StreamResult {
        let ticket = self.shared.nextTicket()
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let submission = PushSubmission(
                    request: request,
                    deadline: deadline,
                    ticket: ticket,
                    receiver: .single(continuation)
                )
                self.post(.submit(submission))
                // A task that was cancelled before the push was in the mailbox has had its handler run in vain.
                if Task.isCancelled { self.post(.cancel(ticket: ticket)) }
            }
        } onCancel: {
            self.post(.cancel(ticket: ticket))
        }
    }

    /// Sends pushes of a bulk call; their results go to its collector.
    nonisolated func send(_ submissions: [PushSubmission]) {
        self.post(.submitAll(submissions))
    }

    nonisolated private func post(_ message: ConnectionMailbox.Message) {
        switch self.mailbox.put(message) {
        case .accepted:
            break
        case .wakeReader:
            self.loop.execute { self.assumeIsolated { $0.readMailbox() } }
        case .closed:
            Self.refuse(message.submissions, pool: self.pool)
        }
    }

    /// Answers pushes that no connection will take.
    nonisolated private static func refuse(_ submissions: [PushSubmission], pool: Pool<ConnectionActor>) {
        for submission in submissions {
            let result = StreamResult.notSent(.connectionLost)
            switch submission.receiver {
            case .single(let continuation):
                continuation.resume(returning: result)
            case .bulk(let collector, let index, let grant):
                pool.checkin(grant, count: 1)
                collector.deliver([BulkCollector.Item(index: index, result: result)])
            }
        }
    }

    private func readMailbox() {
        // The two arrays change places, so that neither is ever copied.
        var messages: [ConnectionMailbox.Message] = []
        swap(&messages, &self.messages)
        self.mailbox.take(into: &messages)
        var submissions: [StreamSubmission] = []
        submissions.reserveCapacity(64)
        for message in messages {
            switch message {
            case .submit(let submission):
                submissions.append(self.accept(submission))
            case .submitAll(let batch):
                for submission in batch { submissions.append(self.accept(submission)) }
            case .cancel(let ticket):
                self.cancel(ticket, &submissions)
            case .connect:
                self.perform(self.machine.connect())
            case .disconnect:
                self.submit(&submissions)
                self.perform(self.machine.disconnect())
            case .replace:
                self.submit(&submissions)
                self.perform(self.machine.replace())
            case .stop:
                self.submit(&submissions)
                self.stop()
            }
        }
        messages.removeAll(keepingCapacity: true)
        swap(&messages, &self.messages)
        self.submit(&submissions)
    }

    private func accept(_ submission: PushSubmission) -> StreamSubmission {
        let index = self.pending.insert(submission.receiver, ticket: submission.ticket)
        return StreamSubmission(request: submission.request, tag: UInt64(index), deadline: submission.deadline)
    }

    /// One write for all that came in this tick.
    private func submit(_ submissions: inout [StreamSubmission]) {
        guard !submissions.isEmpty else { return }
        let batch = submissions
        submissions.removeAll(keepingCapacity: true)
        if let session = self.machine.readySession, let connection = self.connections[session] {
            connection.submit(batch)
            if connection.isNearlyExhausted { self.perform(self.machine.replace()) }
        } else {
            self.deliver(batch.map { .notSent(.noSlot, tag: $0.tag) })
        }
    }

    private func cancel(_ ticket: UInt64, _ submissions: inout [StreamSubmission]) {
        guard let index = self.pending.index(ofTicket: ticket) else { return }
        if let position = submissions.firstIndex(where: { $0.tag == UInt64(index) }) {
            // It came in the same tick: nothing of it is written.
            submissions.remove(at: position)
            self.deliver([.notSent(.cancelled, tag: UInt64(index))])
            return
        }
        for connection in self.connections.values { connection.cancel(tag: UInt64(index)) }
    }

    // MARK: Results

    private func deliver(_ results: [StreamResult]) {
        var batch = BulkBatch()
        for result in results {
            switch self.pending.remove(Int(truncatingIfNeeded: result.tag)) {
            case .single(let continuation):
                continuation.resume(returning: result)
            case .bulk(let collector, let index, let grant):
                batch.add(result, index, collector, grant, pool: self.pool)
            case nil:
                break
            }
        }
        batch.flush(pool: self.pool)
    }

    /// What the answers of a tick say about the connection.
    private func judge(_ session: Int, _ results: [StreamResult]) {
        var answers = 0
        for result in results where result.ending == .response {
            answers += 1
            switch result.status {
            case 503:
                self.perform(
                    self.machine.answeredBadly(
                        session: session,
                        now: self.clock.now,
                        using: &self.generator,
                        mayReplace: { self.shared.replacements.take(now: self.clock.now) }
                    )
                )
            case 403:
                if [.expiredProviderToken, .unrelatedKeyIDInToken].contains(
                    Rejection(status: 403, body: result.body).reason
                ) {
                    self.perform(
                        self.machine.tokenRefused(
                            session: session,
                            mayReplace: { self.shared.replacements.take(now: self.clock.now) }
                        )
                    )
                }
            case 500:
                break
            default:
                self.machine.answeredWell(session: session)
            }
        }
        if answers > 0 { self.shared.retries.recordAnswers(answers, now: self.clock.now) }
    }

    // MARK: Actions

    private func perform(_ actions: [ConnectionStateMachine.Action]) {
        for action in actions {
            switch action {
            case .open(let session): self.open(session)
            case .drain(let session): self.connections[session]?.drain()
            case .close(let session): self.connections[session]?.close()
            case .wakeAt(let instant): self.wake(at: instant)
            case .report(let report): self.report(report, fault: nil)
            }
        }
    }

    /// The same, when a report may carry the error that caused it.
    private func perform(_ actions: [ConnectionStateMachine.Action], because error: WireError) {
        for action in actions {
            if case .report(let report) = action {
                self.report(report, fault: error)
            } else {
                self.perform([action])
            }
        }
    }

    private func report(_ report: ConnectionStateMachine.Report, fault: WireError?) {
        let workerReport: WorkerReport =
            switch report {
            case .connecting: .connecting
            case .ready(let capacity): .ready(capacity: capacity)
            case .capacity(let capacity): .capacity(capacity)
            case .draining: .draining
            case .backingOff(let until, let isConfiguration):
                .backingOff(
                    until: until,
                    fault: fault.map {
                        PoolFault(
                            description: $0.description,
                            isConfiguration: isConfiguration,
                            underlying: $0
                        )
                    }
                )
            case .idle: .idle
            }
        self.pool.report(workerReport, from: self.id)
    }

    private func open(_ session: Int) {
        let connection = Connection(
            id: session,
            configuration: self.shared.connection,
            loop: self.loop,
            delegate: self
        )
        self.connections[session] = connection
        connection.open()
    }

    private func wake(at instant: MonotonicInstant) {
        let delay = self.clock.now.duration(to: instant)
        self.loop.scheduleTask(in: TimeAmount(delay)) {
            self.assumeIsolated { actor in
                // Rounding must not wake the machine before its time.
                actor.perform(actor.machine.wake(now: max(actor.clock.now, instant)))
            }
        }
    }

    private func sessionClosed(_ session: Int, _ error: WireError) {
        self.connections[session] = nil
        if error.code == .invariantBroken {
            self.failure = self.failure ?? error
            self.stop()
        } else {
            self.perform(
                self.machine.closed(
                    session: session,
                    isConfiguration: error.isConfiguration,
                    now: self.clock.now,
                    using: &self.generator
                ),
                because: error
            )
        }
        self.finishIfStopped()
    }

    private func stop() {
        guard !self.isStopping else { return }
        self.isStopping = true
        let late = self.mailbox.close()
        self.perform(self.machine.stop())
        Self.refuse(
            late.flatMap(\.submissions),
            pool: self.pool
        )
        self.finishIfStopped()
    }

    /// `run()` ends when every session has closed, and so every push has its result.
    private func finishIfStopped() {
        guard self.isStopping, self.connections.isEmpty, !self.isDrained else { return }
        self.isDrained = true
        self.deliver(self.pending.waiting().map { .notSent(.connectionLost, tag: UInt64($0)) })
        self.ending?.resume()
        self.ending = nil
    }
}

// The loop calls with values only, so the actor can step into its isolation without a hop.
extension ConnectionActor: ConnectionDelegate {
    nonisolated func connection(_ id: Int, isReadyWithMaxConcurrentStreams limit: Int) {
        self.assumeIsolated { $0.perform($0.machine.ready(session: id, limit: limit)) }
    }

    nonisolated func connection(_ id: Int, maxConcurrentStreamsChangedTo limit: Int) {
        self.assumeIsolated { $0.perform($0.machine.limitChanged(session: id, to: limit)) }
    }

    nonisolated func connection(_ id: Int, isGoingAway error: WireError) {
        self.assumeIsolated { actor in
            let actions = actor.machine.goingAway(
                session: id,
                isConfiguration: error.isConfiguration,
                now: actor.clock.now,
                using: &actor.generator
            )
            actor.perform(actions, because: error)
        }
    }

    nonisolated func connection(_ id: Int, finished results: [StreamResult]) {
        self.assumeIsolated { actor in
            actor.judge(id, results)
            actor.deliver(results)
        }
    }

    nonisolated func connection(_ id: Int, isClosed error: WireError) {
        self.assumeIsolated { $0.sessionClosed(id, error) }
    }
}
