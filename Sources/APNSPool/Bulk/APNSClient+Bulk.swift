public import APNSModel

// Inlinable, so that the caller's module pulls its elements by code made for their type. The overloads differ in what
// an element gives: a device token or its text, a notification or a prepared push.
extension APNSClient {
    /// Sends one prepared push to the device token of each row.
    ///
    ///     for await delivery in client.deliveries(of: push, to: rows, token: \.deviceToken) {
    ///         // delivery.element is the row; what went wrong with it is delivery.outcome, not the end of the run
    ///     }
    ///
    /// - Parameters:
    ///   - push: what to send.
    ///   - rows: pulled only as fast as pushes are done; one that is endless or lazy is fine.
    ///   - token: the row's device token.
    ///   - options: how many at once, how fast, until when.
    ///   - apnsID: the row's `apns-id`, for callers who must know it before; nil for a random one.
    /// - Returns: each row with its outcome, in the order of the outcomes.
    @inlinable
    public func deliveries<Rows: Sequence>(
        of push: PreparedPush,
        to rows: Rows,
        token: @escaping (Rows.Element) -> DeviceToken,
        options: BulkOptions = BulkOptions(),
        apnsID: ((Rows.Element) -> APNSID?)? = nil
    ) -> PushDeliveries<Rows.Element> {
        self.pulled(rows, options) { row in .push(push, token(row), apnsID?(row)) }
    }

    /// The same for device tokens given as text; text that is no device token ends as `validation`, not sent.
    @inlinable
    public func deliveries<Rows: Sequence>(
        of push: PreparedPush,
        to rows: Rows,
        token: @escaping (Rows.Element) -> String,
        options: BulkOptions = BulkOptions(),
        apnsID: ((Rows.Element) -> APNSID?)? = nil
    ) -> PushDeliveries<Rows.Element> {
        self.pulled(rows, options) { row in BulkPull(push, text: token(row), apnsID?(row)) }
    }

    /// Sends each row's own notification to its own device token. It is encoded when the row is pulled; one that cannot
    /// be ends as `validation`, not sent.
    @inlinable
    public func deliveries<Rows: Sequence>(
        _ rows: Rows,
        options: BulkOptions = BulkOptions(),
        apnsID: ((Rows.Element) -> APNSID?)? = nil,
        push: @escaping (Rows.Element) -> (PushNotification, DeviceToken)
    ) -> PushDeliveries<Rows.Element> {
        self.pulled(rows, options) { row in BulkPull(push(row), apnsID?(row)) }
    }

    /// Sends to each row's device token one of several pushes that were prepared before: the row's language, say.
    @inlinable
    public func deliveries<Rows: Sequence>(
        _ rows: Rows,
        options: BulkOptions = BulkOptions(),
        apnsID: ((Rows.Element) -> APNSID?)? = nil,
        push: @escaping (Rows.Element) -> (PreparedPush, DeviceToken)
    ) -> PushDeliveries<Rows.Element> {
        self.pulled(rows, options) { row in
            let (prepared, token) = push(row)
            return .push(prepared, token, apnsID?(row))
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
            summary.count(delivery.outcome)
        }
        return summary
    }

    @inlinable
    func pulled<Rows: Sequence>(
        _ rows: Rows,
        _ options: BulkOptions,
        push: @escaping (Rows.Element) -> BulkPull
    ) -> PushDeliveries<Rows.Element> {
        PushDeliveries(client: self, options: options) {
            let rows = PulledRows(rows.makeIterator())
            return { place in
                guard let element = rows.iterator.next() else { return .end }
                place.initialize(to: element)
                return push(element)
            }
        }
    }
}

/// The rows of one bulk call.
@usableFromInline
final class PulledRows<Iterator: IteratorProtocol> {
    // Unchecked: only the consumer's task pulls, one row at a time, and the iterator does not know this object.
    @exclusivity(unchecked) @usableFromInline var iterator: Iterator

    @inlinable
    init(_ iterator: Iterator) { self.iterator = iterator }
}

// The same over asynchronous inputs: a database's rows, a queue's messages, the lines of a file.
extension APNSClient {
    /// Sends one prepared push to the device token of each row.
    ///
    /// - Parameters:
    ///   - push: what to send.
    ///   - rows: a task of its own pulls them, as many as there is room for in flight. The loop throws what this throws,
    ///     after the outcomes of the rows before.
    ///   - token: the row's device token.
    ///   - options: how many at once, how fast, until when.
    ///   - apnsID: the row's `apns-id`, for callers who must know it before; nil for a random one.
    /// - Returns: each row with its outcome, in the order of the outcomes.
    public func deliveries<Rows: AsyncSequence & Sendable>(
        of push: PreparedPush,
        to rows: Rows,
        token: @escaping (Rows.Element) -> DeviceToken,
        options: BulkOptions = BulkOptions(),
        apnsID: ((Rows.Element) -> APNSID?)? = nil
    ) -> AsyncPushDeliveries<Rows> where Rows.Element: Sendable {
        AsyncPushDeliveries(client: self, options: options, rows: rows) { .push(push, token($0), apnsID?($0)) }
    }

    /// The same for device tokens given as text; text that is no device token ends as `validation`, not sent.
    public func deliveries<Rows: AsyncSequence & Sendable>(
        of push: PreparedPush,
        to rows: Rows,
        token: @escaping (Rows.Element) -> String,
        options: BulkOptions = BulkOptions(),
        apnsID: ((Rows.Element) -> APNSID?)? = nil
    ) -> AsyncPushDeliveries<Rows> where Rows.Element: Sendable {
        AsyncPushDeliveries(client: self, options: options, rows: rows) { BulkPull(push, text: token($0), apnsID?($0)) }
    }

    /// Sends each row's own notification to its own device token. The caller's task encodes it.
    public func deliveries<Rows: AsyncSequence & Sendable>(
        _ rows: Rows,
        options: BulkOptions = BulkOptions(),
        apnsID: ((Rows.Element) -> APNSID?)? = nil,
        push: @escaping (Rows.Element) -> (PushNotification, DeviceToken)
    ) -> AsyncPushDeliveries<Rows> where Rows.Element: Sendable {
        AsyncPushDeliveries(client: self, options: options, rows: rows) { BulkPull(push($0), apnsID?($0)) }
    }

    /// Sends to each row's device token one of several pushes that were prepared before.
    public func deliveries<Rows: AsyncSequence & Sendable>(
        _ rows: Rows,
        options: BulkOptions = BulkOptions(),
        apnsID: ((Rows.Element) -> APNSID?)? = nil,
        push: @escaping (Rows.Element) -> (PreparedPush, DeviceToken)
    ) -> AsyncPushDeliveries<Rows> where Rows.Element: Sendable {
        AsyncPushDeliveries(client: self, options: options, rows: rows) { row in
            let (prepared, token) = push(row)
            return .push(prepared, token, apnsID?(row))
        }
    }

    /// Sends one prepared push to many devices and counts what became of it.
    ///
    /// - Throws: what the input throws. Then nobody learns the counts: loop over `deliveries` where they matter.
    public func sendAll<Tokens: AsyncSequence & Sendable>(
        _ push: PreparedPush,
        to tokens: Tokens,
        options: BulkOptions = BulkOptions()
    ) async throws(Tokens.Failure) -> BulkSummary where Tokens.Element == DeviceToken {
        var summary = BulkSummary()
        var iterator = self.deliveries(of: push, to: tokens, token: { $0 }, options: options).makeAsyncIterator()
        while let delivery = try await iterator.next() { summary.count(delivery.outcome) }
        return summary
    }
}

extension BulkPull {
    @usableFromInline
    init(_ push: PreparedPush, text: String, _ id: APNSID?) {
        do throws(ValidationError) {
            self = .push(push, try DeviceToken(text), id)
        } catch {
            self = .invalid(.validation(error))
        }
    }

    @usableFromInline
    init(_ push: (PushNotification, DeviceToken), _ id: APNSID?) {
        do throws(ValidationError) {
            self = .push(try push.0.prepared(), push.1, id)
        } catch {
            self = .invalid(.validation(error))
        }
    }
}
