import APNSModel
import HTTP2Wire
import SupervisedPool

/// One call to manage the channels of an app.
final class ChannelCall: SendLoop, RequestLoop {
    private let operation: ChannelOperation
    private let bundleID: String
    /// The successful response (status 200 to 299).
    private var response: StreamResult?

    init(_ operation: ChannelOperation, bundleID: String, _ options: ChannelCallOptions, _ context: SendContext) {
        let id = options.requestID ?? context.ids.next()
        self.operation = operation
        self.bundleID = bundleID
        super.init(
            context,
            to: .management,
            id: id,
            deadline: options.deadline,
            kind: .channelCall(isRepeatable: operation.isRepeatable),
            context.monitor.tracing.channels(operation, bundleID: bundleID, id: id)
        )
    }

    /// Performs the call. It ends by its deadline.
    ///
    /// - Throws: The error of the call, unless it got a successful response.
    func response() async throws(PushError) -> ChannelResponse {
        let outcome = await self.run()
        if let error = outcome.error { throw error }
        guard let response = self.response else {
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

    override var noun: String { "calls" }

    func request(authorization: HeaderBlock?) -> HTTP2Request {
        BroadcastRequests.manage(
            self.operation,
            bundleID: self.bundleID,
            id: self.history.id,
            authority: self.context.configuration.environment.managementAuthority,
            credential: authorization
        )
    }

    override func evaluate(_ result: StreamResult, of route: SendRoute?) -> AttemptEnd {
        guard result.ending == .response, (200..<300).contains(result.status) else {
            return super.evaluate(result, of: route)
        }
        self.history.countAttempt()
        self.response = result
        return .accepted(result.receipt(id: self.history.id, attempts: self.history.attempts))
    }

    override func finish(_ outcome: PushOutcome) {
        if let response {
            self.span?.end(accepted: response.status, attempts: self.history.attempts)
        } else {
            super.finish(outcome)
        }
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
        return try await ChannelCall(operation, bundleID: bundleID, options, self.context).response()
    }
}
