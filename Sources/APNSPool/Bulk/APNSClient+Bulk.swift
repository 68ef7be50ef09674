public import APNSModel

/// How a bulk call sends.
public struct BulkOptions: Sendable {
    /// Pushes that are under way at once. Default 1,000; 1 to 100,000, values beyond are taken as these.
    public var maxInFlight: Int
    /// The deadline of each push, counted from when its element was pulled. Nil: the client's.
    public var deadline: Duration?
    /// Whom the pushes wait behind when streams are short. Default `bulk`.
    public var lane: PushLane
    /// When so many device tokens are refused that the environment or topic must be wrong: no further element is
    /// pulled, and what was pulled but not sent ends with the code `suspectedMisconfiguration`. Nil: the client's.
    public var breaker: MassRejectionLimits?

    public init(
        maxInFlight: Int = 1000,
        deadline: Duration? = nil,
        lane: PushLane = .bulk,
        breaker: MassRejectionLimits? = nil
    ) {
        self.maxInFlight = min(max(maxInFlight, 1), 100_000)
        self.deadline = deadline
        self.lane = lane
        self.breaker = breaker
    }
}

/// An element of a bulk call's input and what became of its push.
public struct PushDelivery<Element> {
    public var element: Element
    public var outcome: PushOutcome
}

extension PushDelivery: Sendable where Element: Sendable {}

/// The outcomes of a bulk call, in the order in which they come.
///
/// Sending starts when the first outcome is asked for. Leaving the loop early resets nothing: no further element is
/// pulled, and what is in flight finishes.
public struct PushDeliveries<Element>: AsyncSequence {
    public struct AsyncIterator: AsyncIteratorProtocol {
        let run: BulkRun<Element>

        public mutating func next() async -> PushDelivery<Element>? {
            await self.run.next()
        }

        public mutating func next(isolation actor: isolated (any Actor)?) async -> PushDelivery<Element>? {
            await self.run.next()
        }
    }

    private let client: APNSClient
    private let options: BulkOptions
    private let makePull: () -> Pull

    /// Puts the next element at the given place and says what its push is; nil, and nothing put, at the end.
    @usableFromInline
    typealias Pull = (UnsafeMutablePointer<Element>) -> Result<(PreparedPush, DeviceToken), PushError>?

    @usableFromInline
    init(client: APNSClient, options: BulkOptions, makePull: @escaping () -> Pull) {
        self.client = client
        self.options = options
        self.makePull = makePull
    }

    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(run: BulkRun(core: self.client.core, options: self.options, pull: self.makePull()))
    }
}

/// What became of the pushes of `sendAll`, as counts.
public struct BulkSummary: Sendable, Hashable {
    public var accepted = 0
    public var rejected = 0
    public var notProcessed = 0
    public var notSent = 0
    public var unknown = 0
    /// Why no further element was pulled although the input had some, perhaps (`suspectedMisconfiguration`); nil: all
    /// were.
    public var stopped: PushError?

    public init() {}

    public var total: Int { self.accepted + self.rejected + self.notProcessed + self.notSent + self.unknown }

    public mutating func count(_ certainty: Certainty) {
        switch certainty {
        case .accepted: self.accepted += 1
        case .rejected: self.rejected += 1
        case .notProcessed: self.notProcessed += 1
        case .notSent: self.notSent += 1
        case .unknown: self.unknown += 1
        }
    }
}

// Inlinable, so that the caller's module pulls its elements by code made for their type.
extension APNSClient {
    /// Sends one prepared push to the device token of each row.
    ///
    /// - Parameters:
    ///   - rows: pulled only as fast as pushes are done; one that is endless or lazy is fine.
    ///   - token: the row's device token.
    /// - Returns: each row with its outcome. An invalid device token is one row's outcome, not the end of the run.
    @inlinable
    public func deliveries<Rows: Sequence>(
        of push: PreparedPush,
        to rows: Rows,
        token: @escaping (Rows.Element) -> DeviceToken,
        options: BulkOptions = BulkOptions()
    ) -> PushDeliveries<Rows.Element> {
        self.deliveries(rows, options) { row in .success((push, token(row))) }
    }

    /// The same for device tokens given as text; text that is no device token ends as `validation`, not sent.
    @inlinable
    public func deliveries<Rows: Sequence>(
        of push: PreparedPush,
        to rows: Rows,
        token: @escaping (Rows.Element) -> String,
        options: BulkOptions = BulkOptions()
    ) -> PushDeliveries<Rows.Element> {
        self.deliveries(rows, options) { row in
            do throws(ValidationError) {
                return .success((push, try DeviceToken(token(row))))
            } catch {
                return .failure(.validation(error))
            }
        }
    }

    /// Sends each row's own notification to its own device token. It is encoded when the row is pulled.
    @inlinable
    public func deliveries<Rows: Sequence>(
        _ rows: Rows,
        options: BulkOptions = BulkOptions(),
        push: @escaping (Rows.Element) -> (PushNotification, DeviceToken)
    ) -> PushDeliveries<Rows.Element> {
        self.deliveries(rows, options) { row in
            let (notification, token) = push(row)
            do throws(ValidationError) {
                return .success((try notification.prepared(), token))
            } catch {
                return .failure(.validation(error))
            }
        }
    }

    /// Sends one prepared push to many devices and counts what became of it.
    public func sendAll(
        _ push: PreparedPush,
        to tokens: some Sequence<DeviceToken>,
        options: BulkOptions = BulkOptions()
    ) async -> BulkSummary {
        var summary = BulkSummary()
        for await delivery in self.deliveries(of: push, to: tokens, token: { $0 }, options: options) {
            summary.count(delivery.outcome.certainty)
            if delivery.outcome.error?.code == .suspectedMisconfiguration { summary.stopped = delivery.outcome.error }
        }
        return summary
    }

    @inlinable
    func deliveries<Rows: Sequence>(
        _ rows: Rows,
        _ options: BulkOptions,
        push: @escaping (Rows.Element) -> Result<(PreparedPush, DeviceToken), PushError>
    ) -> PushDeliveries<Rows.Element> {
        PushDeliveries(client: self, options: options) {
            var iterator = rows.makeIterator()
            return { place in
                guard let element = iterator.next() else { return nil }
                place.initialize(to: element)
                return push(element)
            }
        }
    }
}
