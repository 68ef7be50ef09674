import APNSModel
import APNSTransport
import SupervisedPool

/// One call to manage the channels of an app.
struct ChannelRequest: SendRequest {
    static var noun: String { "calls" }
    static var destination: SendRoute.Destination { .management }

    let operation: ChannelOperation
    let bundleID: String
    /// The successful response (status 200 to 299).
    private(set) var response: StreamResult?

    init(_ operation: ChannelOperation, bundleID: String) {
        self.operation = operation
        self.bundleID = bundleID
    }

    var bytes: Int { 0 }

    func encode(id: APNSID, authorization: HeaderBlock?, _ context: SendContext) -> HTTP2Request {
        BroadcastRequests.manage(
            self.operation,
            bundleID: self.bundleID,
            id: id,
            authority: context.configuration.environment.managementAuthority,
            credential: authorization
        )
    }

    mutating func evaluate(
        _ result: StreamResult,
        of route: SendRoute?,
        _ history: inout PushHistory,
        _ context: SendContext
    ) -> AttemptEnd {
        guard result.ending == .response, (200..<300).contains(result.status) else {
            return context.evaluate(result, of: route, &history)
        }
        history.countAttempt()
        self.response = result
        return .accepted(result.receipt(id: history.id, attempts: history.attempts))
    }

    func finish(_ outcome: PushOutcome, _ span: CallSpan?, _ context: SendContext) {
        if let response {
            span?.end(accepted: response.status, attempts: outcome.attempts)
        } else {
            span?.end(outcome)
        }
    }
}

extension SendLoop<ChannelRequest> {
    /// Performs the call. It ends by its deadline.
    ///
    /// - Throws: The error of the call, unless it got a successful response.
    func response() async throws(PushError) -> ChannelResponse {
        let outcome = await self.run()
        if let error = outcome.error { throw error }
        guard let response = self.request.response else {
            throw PushError(
                code: .internalFault,
                certainty: .unknown,
                apnsID: self.history.id,
                message: "a call ended without a response"
            )
        }
        let echoed = response.fields.first("apns-request-id").flatMap { APNSID($0) }
        return ChannelResponse(
            result: response,
            requestID: echoed ?? self.history.id,
            attempts: self.history.attempts
        )
    }
}

/// The response to a successful channel call (status 200 to 299).
struct ChannelResponse: Sendable {
    var result: StreamResult
    var requestID: APNSID
    var attempts: Int
}

extension APNSChannels {
    func call(
        _ operation: ChannelOperation,
        bundleID: String?,
        options: ChannelCallOptions
    ) async throws(PushError) -> ChannelResponse {
        let bundleID = bundleID ?? self.defaultTopic ?? ""
        do {
            try BundleID.check(bundleID)
        } catch {
            throw PushError.validation(error, apnsID: options.requestID)
        }
        let id = options.requestID ?? self.context.ids.next()
        return try await SendLoop(
            ChannelRequest(operation, bundleID: bundleID),
            self.context,
            id: id,
            deadline: options.deadline,
            kind: .channelCall(isRepeatable: operation.isRepeatable),
            self.context.monitor.tracing.channels(operation, bundleID: bundleID, id: id)
        ).response()
    }
}
