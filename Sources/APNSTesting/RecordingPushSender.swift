public import APNSModel
import Synchronization

/// A sender for the tests of code that sends pushes: it keeps what it is given and answers as it is told, without a
/// server, a socket or a key.
///
/// ```swift
/// let sender = RecordingPushSender()
/// try await welcome(user, with: sender)            // takes `some PushSender`
/// #expect(sender.pushes.map(\.token) == [user.deviceToken])
/// ```
///
/// Bulk calls run on it too, with their control, rate and pause; their pushes are recorded in the order of the rows. The
/// limits on mass rejections belong to a client and are ignored.
public final class RecordingPushSender: PushSender {
    /// One push that was delivered.
    public struct Push: Sendable {
        /// What was delivered.
        public var push: PreparedPush
        /// The device that it went to.
        public var token: DeviceToken
        /// The options of the call.
        public var options: DeliveryOptions
        /// The outcome that the caller got.
        public var outcome: PushOutcome
    }

    private let recorded = Mutex<[Push]>([])
    private let outcome: (@Sendable (PreparedPush, DeviceToken) -> PushOutcome)?

    /// - Parameter answer: the outcome of each push. Nil, the default: accepted, with the id of the call's options or a
    ///   random one.
    public init(outcome: (@Sendable (PreparedPush, DeviceToken) -> PushOutcome)? = nil) {
        self.outcome = outcome
    }

    /// What was delivered so far, in order. Notifications that could not be prepared are not among them: their outcome
    /// says why.
    public var pushes: [Push] { self.recorded.withLock { $0 } }

    /// Forgets what was delivered.
    public func reset() { self.recorded.withLock { $0 = [] } }

    /// Records the push and answers as it was told, at once.
    public func deliver(_ push: PreparedPush, to token: DeviceToken, options: DeliveryOptions) async -> PushOutcome {
        let outcome = self.outcome?(push, token) ?? .accepted(Receipt(apnsID: options.apnsID ?? .random()))
        self.recorded.withLock {
            $0.append(Push(push: push, token: token, options: options, outcome: outcome))
        }
        return outcome
    }
}

// A bulk call's pushes are recorded in the order of its rows.
extension RecordingPushSender: BulkEngineSender {
    package func makeBulkEngine(
        _ source: BulkSource,
        _ options: BulkOptions,
        _ control: BulkControl
    ) -> any BulkEngine {
        var options = options
        options.maxInFlight = 1
        return PlainBulkRun(sender: self, source, options, control)
    }
}
