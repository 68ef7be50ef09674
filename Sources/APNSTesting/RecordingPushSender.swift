public import APNSModel
import Synchronization

/// A sender for tests of code that sends pushes. It records pushes and returns the outcomes that you specify, without a
/// server, a socket or a key.
///
/// ```swift
/// let sender = RecordingPushSender()
/// try await welcome(user, with: sender)  // takes `some PushSender`
/// #expect(sender.pushes.map(\.token) == [user.token])
/// #expect(sender.pushes.first?.alert?.title == "Welcome")
/// ```
///
/// It also runs bulk calls, with their control, rate and pause, and records their pushes in the order of the rows. The
/// limits on mass rejections belong to a client and are ignored.
public final class RecordingPushSender: PushSender {
    /// One delivered push.
    public struct Push: Sendable {
        /// The push.
        public var push: PreparedPush
        /// The device token that it was sent to.
        public var token: DeviceToken
        /// The options of the call.
        public var options: DeliveryOptions
        /// The outcome returned to the caller.
        public var outcome: PushOutcome

        /// The alert of the push; nil if it has none. An alert that is a text becomes the body, as on a device.
        public var alert: Alert? { self.push.alert }

        /// Decodes the payload, to check custom values, the badge or any other key.
        ///
        /// - Parameter type: a type whose properties are the keys to read, `aps` included. Other keys are ignored.
        /// - Returns: the payload as that type, decoded by a plain `JSONDecoder`.
        /// - Throws: `DecodingError` if a key is missing or has another type.
        public func decodePayload<Value: Decodable>(as type: Value.Type) throws -> Value {
            try self.push.decodePayload(as: type)
        }
    }

    /// The topic of notifications that name none.
    public let defaultTopic: String?
    private let recorded = Mutex<[Push]>([])
    private let outcome: (@Sendable (PreparedPush, DeviceToken) -> PushOutcome)?

    /// - Parameters:
    ///   - defaultTopic: The topic of notifications that name none, as in a client's configuration.
    ///   - outcome: Returns the outcome of each push. Nil, the default: accepted, with the id of the call's options or a
    ///     random one.
    public init(
        defaultTopic: String? = "com.example.app",
        outcome: (@Sendable (PreparedPush, DeviceToken) -> PushOutcome)? = nil
    ) {
        self.defaultTopic = defaultTopic
        self.outcome = outcome
    }

    /// The pushes delivered so far, in order. Notifications that could not be prepared are not included: their outcome
    /// states the reason.
    public var pushes: [Push] { self.recorded.withLock { $0 } }

    /// Removes all recorded pushes.
    public func reset() { self.recorded.withLock { $0 = [] } }

    /// Records the push and immediately returns the specified outcome.
    public func deliver(_ push: PreparedPush, to token: DeviceToken, options: DeliveryOptions) async -> PushOutcome {
        let outcome = self.outcome?(push, token) ?? .accepted(Receipt(apnsID: options.apnsID ?? .random()))
        self.recorded.withLock {
            $0.append(Push(push: push, token: token, options: options, outcome: outcome))
        }
        return outcome
    }
}
