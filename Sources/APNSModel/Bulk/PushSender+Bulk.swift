// Inlinable, so that the caller's module pulls its elements with code specialised for their type.
extension PushSender {
    /// Sends one push to the device token of each row.
    ///
    /// ```swift
    /// for await delivery in client.deliveries(of: notification, to: devices, token: \.token) {
    ///     print(delivery.element.token, delivery.outcome.certainty)
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - push: a notification, which is encoded once, when you call this function, or a prepared push. If it cannot
    ///     be prepared, each row ends as `validation`, not sent.
    ///   - rows: the input, pulled only as fast as pushes finish. It may be lazy or infinite.
    ///   - token: the row's device token, or its text. If it throws, or the text is not a device token, the row ends as
    ///     `validation`, not sent.
    ///   - options: concurrency, rate, deadline and control.
    ///   - apnsID: the row's `apns-id`, if you need to know it in advance; nil for a random id.
    /// - Returns: each row with its outcome, in the order in which the outcomes arrive.
    @inlinable
    public func deliveries<Rows: Sequence, Token: DeviceTokenConvertible>(
        of push: some PushContent,
        to rows: Rows,
        token: @escaping (Rows.Element) throws -> Token,
        options: BulkOptions = BulkOptions(),
        apnsID: ((Rows.Element) -> APNSID?)? = nil
    ) -> PushDeliveries<Rows.Element> {
        let push = BulkPull.Push(push, defaultTopic: self.defaultTopic)
        return self.pulled(rows, options) { row in BulkPull(push, apnsID?(row)) { try token(row) } }
    }

    /// Sends one push to each device token, or to each row that provides its device token.
    ///
    /// ```swift
    /// for await delivery in client.deliveries(of: notification, to: deviceTokens) {
    ///     print(delivery.element, delivery.outcome.certainty)
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - push: a notification, which is encoded once, when you call this function, or a prepared push. If it cannot
    ///     be prepared, each token ends as `validation`, not sent.
    ///   - tokens: device tokens or their text, pulled only as fast as pushes finish.
    ///   - options: concurrency, rate, deadline and control.
    ///   - apnsID: the push's `apns-id`, if you need to know it in advance; nil for a random id.
    /// - Returns: each token with its outcome, in the order in which the outcomes arrive.
    @inlinable
    public func deliveries<Tokens: Sequence>(
        of push: some PushContent,
        to tokens: Tokens,
        options: BulkOptions = BulkOptions(),
        apnsID: ((Tokens.Element) -> APNSID?)? = nil
    ) -> PushDeliveries<Tokens.Element> where Tokens.Element: DeviceTokenConvertible {
        self.deliveries(of: push, to: tokens, token: { $0 }, options: options, apnsID: apnsID)
    }

    /// Sends each row's own push to its own device token.
    ///
    /// ```swift
    /// let push = try PushNotification(topic: "com.grasscove.Fern", alert: "Hey There").prepared()
    /// for await delivery in client.deliveries(devices, push: { (try push.badge($0.unread), $0.token) }) {
    ///     print(delivery.element.token, delivery.outcome.certainty)
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - rows: the input, pulled only as fast as pushes finish. It may be lazy or infinite.
    ///   - options: concurrency, rate, deadline and control.
    ///   - apnsID: the row's `apns-id`, if you need to know it in advance; nil for a random id.
    ///   - push: called once for each row when it is pulled. It returns the row's notification, which is encoded then,
    ///     or one of several prepared pushes; and the row's device token, or its text. If it throws, or its result
    ///     cannot be sent, the row ends as `validation`, not sent; the other rows are not affected.
    /// - Returns: each row with its outcome, in the order in which the outcomes arrive.
    @inlinable
    public func deliveries<Rows: Sequence, Push: PushContent, Token: DeviceTokenConvertible>(
        _ rows: Rows,
        options: BulkOptions = BulkOptions(),
        apnsID: ((Rows.Element) -> APNSID?)? = nil,
        push: @escaping (Rows.Element) throws -> (Push, Token)
    ) -> PushDeliveries<Rows.Element> {
        let topic = self.defaultTopic
        return self.pulled(rows, options) { row in
            BulkPull(apnsID?(row), defaultTopic: topic) { try push(row) }
        }
    }

    @inlinable
    func pulled<Rows: Sequence>(
        _ rows: Rows,
        _ options: BulkOptions,
        push: @escaping (Rows.Element) -> BulkPull
    ) -> PushDeliveries<Rows.Element> {
        PushDeliveries(sender: self, options: options) {
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
    // Unchecked: only the consumer's task pulls, one row at a time, and the iterator has no access to this object.
    @exclusivity(unchecked) @usableFromInline var iterator: Iterator

    @inlinable
    init(_ iterator: Iterator) { self.iterator = iterator }
}

// The bulk calls for asynchronous inputs: rows of a database, messages of a queue, lines of a file.
extension PushSender {
    /// Sends one push to the device token of each row.
    ///
    /// - Parameters:
    ///   - push: a notification, which is encoded once, when you call this function, or a prepared push. If it cannot
    ///     be prepared, each row ends as `validation`, not sent.
    ///   - rows: the input. A separate task pulls it, a few rows ahead of those in flight. If it throws, the loop
    ///     throws that error after the outcomes of all rows before it.
    ///   - token: the row's device token, or its text. If it throws, or the text is not a device token, the row ends as
    ///     `validation`, not sent.
    ///   - options: concurrency, rate, deadline and control.
    ///   - apnsID: the row's `apns-id`, if you need to know it in advance; nil for a random id.
    /// - Returns: each row with its outcome, in the order in which the outcomes arrive.
    public func deliveries<Rows: AsyncSequence & Sendable, Token: DeviceTokenConvertible>(
        of push: some PushContent,
        to rows: Rows,
        token: @escaping (Rows.Element) throws -> Token,
        options: BulkOptions = BulkOptions(),
        apnsID: ((Rows.Element) -> APNSID?)? = nil
    ) -> AsyncPushDeliveries<Rows> where Rows.Element: Sendable {
        let push = BulkPull.Push(push, defaultTopic: self.defaultTopic)
        return AsyncPushDeliveries(sender: self, options: options, rows: rows) { row in
            BulkPull(push, apnsID?(row)) { try token(row) }
        }
    }

    /// Sends one push to each device token, or to each row that provides its device token.
    ///
    /// - Parameters:
    ///   - push: a notification, which is encoded once, when you call this function, or a prepared push. If it cannot
    ///     be prepared, each token ends as `validation`, not sent.
    ///   - tokens: device tokens or their text. A separate task pulls them, a few ahead of those in flight. If the
    ///     input throws, the loop throws that error after the outcomes of all tokens before it.
    ///   - options: concurrency, rate, deadline and control.
    ///   - apnsID: the push's `apns-id`, if you need to know it in advance; nil for a random id.
    /// - Returns: each token with its outcome, in the order in which the outcomes arrive.
    public func deliveries<Tokens: AsyncSequence & Sendable>(
        of push: some PushContent,
        to tokens: Tokens,
        options: BulkOptions = BulkOptions(),
        apnsID: ((Tokens.Element) -> APNSID?)? = nil
    ) -> AsyncPushDeliveries<Tokens> where Tokens.Element: DeviceTokenConvertible & Sendable {
        self.deliveries(of: push, to: tokens, token: { $0 }, options: options, apnsID: apnsID)
    }

    /// Sends each row's own push to its own device token.
    ///
    /// - Parameters:
    ///   - rows: the input. A separate task pulls it, a few rows ahead of those in flight. If it throws, the loop
    ///     throws that error after the outcomes of all rows before it.
    ///   - options: concurrency, rate, deadline and control.
    ///   - apnsID: the row's `apns-id`, if you need to know it in advance; nil for a random id.
    ///   - push: called once for each row, in the task of the loop. It returns the row's notification or prepared push,
    ///     and its device token or the text of it. If it throws, or its result cannot be sent, the row ends as
    ///     `validation`, not sent; the other rows are not affected.
    /// - Returns: each row with its outcome, in the order in which the outcomes arrive.
    public func deliveries<Rows: AsyncSequence & Sendable, Push: PushContent, Token: DeviceTokenConvertible>(
        _ rows: Rows,
        options: BulkOptions = BulkOptions(),
        apnsID: ((Rows.Element) -> APNSID?)? = nil,
        push: @escaping (Rows.Element) throws -> (Push, Token)
    ) -> AsyncPushDeliveries<Rows> where Rows.Element: Sendable {
        let topic = self.defaultTopic
        return AsyncPushDeliveries(sender: self, options: options, rows: rows) { row in
            BulkPull(apnsID?(row), defaultTopic: topic) { try push(row) }
        }
    }
}
