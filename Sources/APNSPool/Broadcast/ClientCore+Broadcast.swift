import APNSModel
import HTTP2Wire
import SupervisedPool

extension ClientCore {
    /// The way of one broadcast, which was checked before: the channel's turn, then as a push. Never throws, and ends by its deadline.
    func deliver(
        _ broadcast: PreparedPush,
        to channel: ChannelID,
        options: BroadcastOptions
    ) async -> PushOutcome {
        var history = PushHistory(id: options.requestID ?? self.ids.next(), deadline: self.deadline(options.deadline))
        let span = self.tracing.broadcast(broadcast, to: channel, id: history.id)
        let outcome: PushOutcome
        if self.lifecycle.enter() {
            outcome = await self.deliver(broadcast, to: channel, options: options, &history, span)
            span?.end(outcome)
            self.lifecycle.leave()
        } else {
            outcome = history.fail(.shuttingDown, "the client is shutting down and takes no further broadcasts")
            span?.end(outcome)
        }
        return outcome
    }

    private func deliver(
        _ broadcast: PreparedPush,
        to channel: ChannelID,
        options: BroadcastOptions,
        _ history: inout PushHistory,
        _ span: CallSpan?
    ) async -> PushOutcome {
        if let end = await self.beginCall(history.deadline) { return history.fail(end.code, end.message) }
        if let outcome = await self.awaitTurn(broadcast, channel, options, &history) { return outcome }
        while true {
            let end = await self.attempt(broadcast, to: channel, &history)
            switch self.next(end, &history) {
            case .finish(let outcome):
                return outcome
            case .retry(let delay):
                span?.retry(after: end, attempts: history.attempts, in: delay)
                if delay > .zero {
                    _ = await self.lifecycle.ended.wait(until: self.clock.now.advanced(by: delay), clock: self.clock)
                }
                if Task.isCancelled { return history.fail(.cancelled, "the sending task was cancelled") }
            }
        }
    }

    /// Waits until it is this broadcast's turn in its channel.
    ///
    /// - Returns: nil when it is.
    private func awaitTurn(
        _ broadcast: PreparedPush,
        _ channel: ChannelID,
        _ options: BroadcastOptions,
        _ history: inout PushHistory
    ) async -> PushOutcome? {
        let spacing = options.spacing ?? self.live.settings.broadcastSpacing
        let key = BroadcastPaceMachine.Channel(bundleID: broadcast.bundleID, id: channel.rawValue)
        let now = self.clock.now
        switch self.pacer.take(key, spacing: spacing, now: now, deadline: history.deadline) {
        case .at(let turn) where turn == now:
            return nil
        case .at(let turn):
            _ = await self.lifecycle.ended.wait(until: turn, clock: self.clock)
            guard Task.isCancelled else { return nil }
            self.pacer.giveBack(key, turn: turn, spacing: spacing)
            return history.fail(.cancelled, "the sending task was cancelled while the broadcast waited for its turn")
        case .tooLate(let turn):
            return history.fail(
                .queueFull,
                "its turn would come after its deadline: broadcasts to one channel go \(spacing) apart",
                retryAfter: now.duration(to: turn)
            )
        }
    }

    private func attempt(
        _ broadcast: PreparedPush,
        to channel: ChannelID,
        _ history: inout PushHistory
    ) async -> AttemptEnd {
        let id = history.id
        let call = await self.call(
            to: .pushes,
            bytes: broadcast.payload.count,
            history: history,
            refusal: {
                broadcast.isExpired(atSecondsSince1970: WallClock.secondsSince1970())
                    ? .notSent(.expired, "its apns-expiration passed while it waited", isFinal: true)
                    : self.interruption()
            },
            request: { credential in
                BroadcastRequests.broadcast(
                    broadcast,
                    to: channel,
                    id: id,
                    authority: self.configuration.environment.authority,
                    credential: credential
                )
            }
        )
        switch call {
        case .ended(let end): return end
        case .answered(let result, let credential): return self.read(result, credential: credential, history: &history)
        }
    }

    // MARK: Shared by broadcasts and calls about channels

    /// Waits until the client runs.
    ///
    /// - Returns: why it does not; nil when it does.
    func beginCall(_ deadline: MonotonicInstant) async -> (code: PushError.Code, message: String)? {
        if self.lifecycle.current == .notStarted, await !self.waitUntilRunning(deadline) {
            if Task.isCancelled { return (.cancelled, "the calling task was cancelled") }
            return (.notRunning, "nobody runs the client: call run(), start() or withAPNSClient")
        }
        return nil
    }

    enum Call: Sendable {
        /// It did not come to a stream.
        case ended(AttemptEnd)
        /// What became of the stream.
        case answered(StreamResult, PushCredential)
    }

    /// Where such a request goes.
    enum Destination: Sendable {
        /// The host of the pushes, over their connections.
        case pushes
        case management

        func pool(_ scope: CredentialScope) -> Pool<ConnectionActor> {
            self == .pushes ? scope.pool : scope.management.pool
        }

        func settings(_ scope: CredentialScope) -> ConnectionSettings {
            self == .pushes ? scope.settings : scope.management.settings
        }
    }

    /// One try of a request that goes to no device: provider token, slot, stream.
    ///
    /// - Parameters:
    ///   - refusal: why nothing is sent at all; asked again when the wait for a slot is over.
    ///   - request: made with the provider token's field.
    func call(
        to destination: Destination,
        bytes: Int,
        history: PushHistory,
        refusal: () -> AttemptEnd?,
        request: (HeaderBlock?) -> HTTP2Request
    ) async -> Call {
        if let end = refusal() { return .ended(end) }
        let credential: PushCredential
        switch await self.credential(until: history.deadline, mayTry: false) {
        case .success(let found): credential = found
        case .failure(let failure): return .ended(failure.end)
        }
        let settings = destination.settings(credential.scope)
        if let end = self.credentialFault(credential, over: settings) { return .ended(end) }
        do {
            let pool = destination.pool(credential.scope)
            let lease = try await pool.checkout(deadline: history.deadline, bytes: bytes, atFront: history.isResend)
            if let end = refusal() { return .ended(end) }
            if Task.isCancelled {
                return .ended(
                    .notSent(.cancelled, "the calling task was cancelled before it was sent", isFinal: true)
                )
            }
            let result = await lease.worker.send(
                request(credential.authorization),
                deadline: self.attemptDeadline(history.deadline)
            )
            return .answered(result, credential)
        } catch {
            return .ended(credential.end(error))
        }
    }
}
