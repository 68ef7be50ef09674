import APNSModel
import HTTP2Wire
import SupervisedPool
import Synchronization

/// The answer to a call about channels that APNs did (status 200 to 299).
struct ChannelAnswer: Sendable {
    var result: StreamResult
    var requestID: APNSID
    var attempts: Int
}

extension ClientCore {
    /// The way of one call about channels. Ends by its deadline.
    func call(
        _ operation: ChannelOperation,
        bundleID: String,
        options: ChannelCallOptions
    ) async throws(PushError) -> ChannelAnswer {
        do {
            try BundleID.check(bundleID)
        } catch {
            throw PushError.validation(error, apnsID: options.requestID)
        }
        var history = ChannelCallHistory(
            id: options.requestID ?? self.ids.next(),
            deadline: self.deadline(options.deadline),
            isRepeatable: operation.isRepeatable
        )
        let span = self.tracing.channels(operation, bundleID: bundleID, id: history.tries.id)
        guard self.lifecycle.enter() else {
            let error = history.fail(.shuttingDown, "the client is shutting down and takes no further calls")
            span?.end(error)
            throw error
        }
        defer { self.lifecycle.leave() }
        do {
            let answer = try await self.call(operation, bundleID: bundleID, &history, span)
            span?.end(accepted: answer.result.status, attempts: answer.attempts)
            return answer
        } catch {
            span?.end(error)
            throw error
        }
    }

    private func call(
        _ operation: ChannelOperation,
        bundleID: String,
        _ history: inout ChannelCallHistory,
        _ span: CallSpan?
    ) async throws(PushError) -> ChannelAnswer {
        if let end = await self.beginCall(history.tries.deadline) { throw history.fail(end.code, end.message) }
        while true {
            switch await self.attempt(operation, bundleID: bundleID, &history) {
            case .success(let answer):
                return answer
            case .failure(let failure):
                let delay = try self.delay(failure.end, &history)
                span?.retry(after: failure.end, attempts: history.tries.attempts, in: delay)
                if delay > .zero {
                    _ = await self.lifecycle.ended.wait(until: self.clock.now.advanced(by: delay), clock: self.clock)
                }
                if Task.isCancelled { throw history.fail(.cancelled, "the calling task was cancelled") }
            }
        }
    }

    private struct Failure: Error {
        var end: AttemptEnd
    }

    /// How long to wait for the next try.
    ///
    /// - Throws: the call's error, when there is to be none.
    private func delay(_ end: AttemptEnd, _ history: inout ChannelCallHistory) throws(PushError) -> Duration {
        var generator = SplitMix64(seed: nil)
        let retries = self.keeper.latest.management.settings.retries
        let decision = history.decide(
            end,
            policy: self.configuration.retry,
            now: self.clock.now,
            using: &generator,
            takeBudget: { retries.take(now: self.clock.now) }
        )
        switch decision {
        case .finish(let error): throw error
        case .retry(let delay):
            if self.lifecycle.current == .stopped { throw history.fail(.shuttingDown, "the client was shut down") }
            self.counters.resends.wrappingAdd(1, ordering: .relaxed)
            return delay
        }
    }

    private func attempt(
        _ operation: ChannelOperation,
        bundleID: String,
        _ history: inout ChannelCallHistory
    ) async -> Result<ChannelAnswer, Failure> {
        let id = history.tries.id
        let call = await self.call(
            to: .management,
            bytes: 0,
            history: history.tries,
            refusal: { self.interruption() },
            request: { credential in
                BroadcastRequests.manage(
                    operation,
                    bundleID: bundleID,
                    id: id,
                    authority: self.configuration.environment.managementAuthority,
                    credential: credential
                )
            }
        )
        switch call {
        case .ended(let end):
            return .failure(Failure(end: end))
        case .answered(let result, let credential):
            guard result.ending == .response, (200..<300).contains(result.status) else {
                return .failure(Failure(end: self.read(result, credential: credential, history: &history.tries)))
            }
            history.tries.countAttempt()
            let echoed = result.fields.first("apns-request-id").flatMap { APNSID($0) }
            return .success(
                ChannelAnswer(result: result, requestID: echoed ?? id, attempts: history.tries.attempts)
            )
        }
    }
}
