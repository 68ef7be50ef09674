import APNSModel
import HTTP2Wire
import SupervisedPool

/// A single push on its way: what is known of it between its waits, and what is done between them.
///
/// An object, and not variables of the function that waits. Whatever an asynchronous function has in hand, temporary
/// values included, lies in its task's memory for as long as the push takes: two kilobytes more for each of hundreds of
/// tasks are more than a core's cache holds, and then cost more than all that is computed.
final class PushFlight {
    /// How a try goes on after the steps that take no time.
    enum Preparation {
        case ready
        /// A provider token has to be signed first.
        case unsigned
        /// It has ended already.
        case over
    }

    private let token: DeviceToken
    private let lane: PushLane
    private let key: SupersedeKey?
    private let span: CallSpan?
    // Unchecked: one task has the object, and nothing that an access calls comes back to it.
    @exclusivity(unchecked) private var push: PreparedPush
    @exclusivity(unchecked) private var turn: SupersedeTurn?
    @exclusivity(unchecked) private var history: PushHistory
    /// Of the try that is under way.
    @exclusivity(unchecked) private var credential: PushCredential?
    /// When the try asked for a slot, if somebody measures that.
    @exclusivity(unchecked) private var askedAt: MonotonicInstant?
    /// Until when the try waits for a slot.
    @exclusivity(unchecked) private var slotDeadline = MonotonicInstant(nanoseconds: 0)
    /// How the last try ended.
    @exclusivity(unchecked) private var end: AttemptEnd?

    @inline(never)
    init(_ push: PreparedPush, to token: DeviceToken, _ options: DeliveryOptions, _ core: ClientCore) {
        let id = options.apnsID ?? core.ids.next()
        self.push = push
        self.token = token
        self.lane = options.lane
        self.key = options.supersedes
        self.history = PushHistory(id: id, deadline: core.deadline(options.deadline))
        self.span = core.tracing.push(push, to: token, id: id)
    }

    // MARK: Before the first try

    /// Whether something is waited for before the first try: the turn of its key, or that somebody runs the client.
    func mustWait(_ core: ClientCore) -> Bool { self.key != nil || core.lifecycle.current == .notStarted }

    /// - Returns: the outcome, if that comes before the first try.
    @inline(never)
    func wait(_ core: ClientCore, dated: SupersedeTurns.Dated?) async -> PushOutcome? {
        if let key {
            var history = self.history
            let result = await core.takeTurn(self.push, to: self.token, key: key, dated: dated, &history)
            self.history = history
            switch result {
            case .success(let arrival): (self.turn, self.push) = (arrival.turn, arrival.push)
            case .failure(let error): return self.ended(.failed(error), core)
            }
        }
        guard core.lifecycle.current == .notStarted, await !core.waitUntilRunning(self.history.deadline) else {
            return nil
        }
        if Task.isCancelled { return self.cancelled(core) }
        return self.failed(.notRunning, "nobody runs the client: call run(), start() or withAPNSClient", core)
    }

    // MARK: A try

    /// What comes before the slot: a slow signer must not hold one.
    @inline(never)
    func prepare(_ core: ClientCore) -> Preparation {
        if let end = core.refusal(self.push) { return self.over(end) }
        guard var credential = core.keeper.route() else { return self.over(ClientCore.CredentialFailure.revoked.end) }
        guard credential.renew(now: core.clock.now) else {
            self.credential = credential
            return .unsigned
        }
        return self.take(credential, core)
    }

    /// Waits for a provider token.
    @inline(never)
    func sign(_ core: ClientCore) async -> Preparation {
        guard let credential else { return self.over(ClientCore.CredentialFailure.revoked.end) }
        switch await core.signedCredential(credential, until: self.history.deadline) {
        case .success(let signed): return self.take(signed, core)
        case .failure(let failure): return self.over(failure.end)
        }
    }

    private func take(_ credential: consuming PushCredential, _ core: ClientCore) -> Preparation {
        if let end = core.credentialFault(credential) { return self.over(end) }
        self.askedAt = core.observer.queueTimes.begin(core.clock)
        self.slotDeadline = credential.slotDeadline(self.history.deadline, now: core.clock.now)
        self.credential = credential
        return .ready
    }

    private func over(_ end: AttemptEnd) -> Preparation {
        self.end = end
        return .over
    }

    /// Where the slot is from: there is one once the try is ready.
    var pool: Pool<ConnectionActor>? { self.credential?.scope.pool }

    /// What is asked of the pool.
    var slotRequest: (deadline: MonotonicInstant, bytes: Int, lane: PoolLane, atFront: Bool) {
        (
            self.slotDeadline,
            self.push.payload.count,
            PoolLane(self.lane),
            self.history.isResend || self.turn?.isHeir == true
        )
    }

    /// There is no slot.
    @inline(never)
    func hasNoSlot(_ error: PoolError) {
        self.end = self.credential?.end(error) ?? AttemptEnd(error)
    }

    /// There is a slot: whether the push still goes.
    @inline(never)
    func board(_ core: ClientCore) -> Bool {
        core.observer.queueTimes.end(self.askedAt, core.clock)
        if let end = core.refusal(self.push) {
            self.end = end
        } else if Task.isCancelled {
            self.end = .notSent(.cancelled, "the sending task was cancelled before it was sent", isFinal: true)
        } else if let turn, !turn.write() {
            self.end = .notSent(.superseded, SupersedeTurn.message, isFinal: true)
        } else {
            return true
        }
        return false
    }

    /// What its connection is given.
    @inline(never)
    func submission(_ core: ClientCore, _ ticket: UInt64, _ continuation: StreamContinuation) -> PushSubmission {
        PushSubmission(
            request: core.encoder.request(
                self.push,
                block: core.encoder.block(for: self.push),
                to: self.token,
                id: self.history.id,
                credential: self.credential?.authorization
            ),
            deadline: core.attemptDeadline(self.history.deadline),
            ticket: ticket,
            continuation: continuation,
            isBulk: self.lane == .bulk
        )
    }

    /// The connection said what became of it.
    @inline(never)
    func land(_ result: StreamResult, _ core: ClientCore) {
        let end = core.read(result, credential: self.credential, history: &self.history)
        core.watchForMassRejection(end, self.token, topic: self.push.topic)
        self.end = end
    }

    /// What follows from the try.
    @inline(never)
    func conclude(_ core: ClientCore) -> PushHistory.Decision {
        // With it goes the right to try a new credential.
        self.credential = nil
        let end = self.end ?? .notSent(.internalFault, "the try had no end", isFinal: true)
        self.end = nil
        let decision = core.next(end, &self.history)
        switch decision {
        case .finish(let outcome):
            core.tellInvalid(outcome, self.push, self.token)
            self.ended(outcome, core)
        case .retry(let delay):
            self.span?.retry(after: end, attempts: self.history.attempts, in: delay)
        }
        return decision
    }

    // MARK: The end

    /// An outcome without a (further) try.
    @inline(never)
    func failed(_ code: PushError.Code, _ message: String, _ core: ClientCore) -> PushOutcome {
        self.ended(self.history.fail(code, message), core)
    }

    func cancelled(_ core: ClientCore) -> PushOutcome {
        self.failed(.cancelled, "the sending task was cancelled", core)
    }

    @discardableResult
    private func ended(_ outcome: PushOutcome, _ core: ClientCore) -> PushOutcome {
        core.ended(outcome, self.push, self.token, self.span)
    }

    /// After the outcome: whoever waits behind it may go.
    @inline(never)
    func leave(_ core: ClientCore) {
        self.turn?.end()
        core.lifecycle.leave()
    }
}
