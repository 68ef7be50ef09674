// The bulk calls that count the outcomes.
extension PushSender {
    /// Sends one push to the device token of each row and counts the outcomes.
    ///
    /// - Parameters:
    ///   - push: a notification, which is encoded once, when you call this function, or a prepared push. If it cannot
    ///     be prepared, each row ends as `validation`, not sent.
    ///   - rows: the input, pulled only as fast as pushes finish.
    ///   - token: the row's device token, or its text. If it throws, or the text is not a device token, the row ends as
    ///     `validation`, not sent.
    ///   - options: concurrency, rate, deadline and control.
    /// - Returns: the number of outcomes of each kind, and whether the call reached the end of `rows`.
    public func sendAll<Rows: Sequence, Token: DeviceTokenConvertible>(
        _ push: some PushContent,
        to rows: Rows,
        token: @escaping (Rows.Element) throws -> Token,
        options: BulkOptions = BulkOptions()
    ) async -> BulkSummary {
        var iterator = self.deliveries(of: push, to: rows, token: token, options: options).makeAsyncIterator()
        while await iterator.next() != nil {}
        return iterator.call.summary ?? BulkSummary()
    }

    /// Sends one push to the device token of each row, counts the outcomes, and reports the tokens that are dead.
    ///
    /// ```swift
    /// let summary = try await client.sendAll(notification, to: devices, token: \.token) { device, end in
    ///     if end.shouldRemove(registeredAt: device.registeredAt) { try await database.delete(device) }
    /// }
    /// print(summary)  // 3 pushes: 2 accepted, 1 rejected (1 Unregistered)
    /// ```
    ///
    /// - Parameters:
    ///   - push: a notification, which is encoded once, when you call this function, or a prepared push. If it cannot
    ///     be prepared, each row ends as `validation`, not sent.
    ///   - rows: the input, pulled only as fast as pushes finish.
    ///   - token: the row's device token, or its text. If it throws, or the text is not a device token, the row ends as
    ///     `validation`, not sent.
    ///   - options: concurrency, rate, deadline and control.
    ///   - onInvalidToken: called for each row whose device token APNs reports as invalid (410), one after the other,
    ///     in the caller's task. Meanwhile other pushes continue. If it throws, no further row is pulled, and pushes in
    ///     flight finish; the progress of the control in `options` has the counts up to then.
    /// - Returns: the number of outcomes of each kind, and whether the call reached the end of `rows`.
    /// - Throws: the error of `onInvalidToken`.
    public func sendAll<Rows: Sequence, Token: DeviceTokenConvertible>(
        _ push: some PushContent,
        to rows: Rows,
        token: @escaping (Rows.Element) throws -> Token,
        options: BulkOptions = BulkOptions(),
        onInvalidToken: (Rows.Element, TokenInvalidation) async throws -> Void
    ) async throws -> BulkSummary {
        var iterator = self.deliveries(of: push, to: rows, token: token, options: options).makeAsyncIterator()
        while let delivery = await iterator.next() {
            if let invalidation = delivery.outcome.invalidation {
                try await onInvalidToken(delivery.element, invalidation)
            }
        }
        return iterator.call.summary ?? BulkSummary()
    }

    /// Sends one push to many device tokens and counts the outcomes.
    ///
    /// ```swift
    /// let summary = await client.sendAll(notification, to: deviceTokens)
    /// if !summary.isFinished { print("not all were sent:", summary) }
    /// ```
    ///
    /// - Parameters:
    ///   - push: a notification, which is encoded once, when you call this function, or a prepared push. If it cannot
    ///     be prepared, each token ends as `validation`, not sent.
    ///   - tokens: device tokens or their text, pulled only as fast as pushes finish.
    ///   - options: concurrency, rate, deadline and control.
    /// - Returns: the number of outcomes of each kind, and whether the call reached the end of `tokens`.
    public func sendAll<Tokens: Sequence>(
        _ push: some PushContent,
        to tokens: Tokens,
        options: BulkOptions = BulkOptions()
    ) async -> BulkSummary where Tokens.Element: DeviceTokenConvertible {
        await self.sendAll(push, to: tokens, token: { $0 }, options: options)
    }

    /// Sends one push to many device tokens, counts the outcomes, and reports the tokens that are dead.
    ///
    /// - Parameters:
    ///   - push: a notification, which is encoded once, when you call this function, or a prepared push. If it cannot
    ///     be prepared, each token ends as `validation`, not sent.
    ///   - tokens: device tokens or their text, pulled only as fast as pushes finish.
    ///   - options: concurrency, rate, deadline and control.
    ///   - onInvalidToken: called for each device token that APNs reports as invalid (410), one after the other, in the
    ///     caller's task. If it throws, no further token is pulled, and pushes in flight finish.
    /// - Returns: the number of outcomes of each kind, and whether the call reached the end of `tokens`.
    /// - Throws: the error of `onInvalidToken`.
    public func sendAll<Tokens: Sequence>(
        _ push: some PushContent,
        to tokens: Tokens,
        options: BulkOptions = BulkOptions(),
        onInvalidToken: (Tokens.Element, TokenInvalidation) async throws -> Void
    ) async throws -> BulkSummary where Tokens.Element: DeviceTokenConvertible {
        try await self.sendAll(push, to: tokens, token: { $0 }, options: options, onInvalidToken: onInvalidToken)
    }
}

// The same for asynchronous inputs.
extension PushSender {
    /// Sends one push to the device token of each row and counts the outcomes.
    ///
    /// - Parameters:
    ///   - push: a notification, which is encoded once, when you call this function, or a prepared push. If it cannot
    ///     be prepared, each row ends as `validation`, not sent.
    ///   - rows: the input. A separate task pulls it, a few rows ahead of those in flight.
    ///   - token: the row's device token, or its text. If it throws, or the text is not a device token, the row ends as
    ///     `validation`, not sent.
    ///   - options: concurrency, rate, deadline and control.
    /// - Returns: the number of outcomes of each kind, and whether the call reached the end of `rows`.
    /// - Throws: the input's error. The progress of the control in `options` has the counts up to then.
    public func sendAll<Rows: AsyncSequence & Sendable, Token: DeviceTokenConvertible>(
        _ push: some PushContent,
        to rows: Rows,
        token: @escaping (Rows.Element) throws -> Token,
        options: BulkOptions = BulkOptions()
    ) async throws(Rows.Failure) -> BulkSummary where Rows.Element: Sendable {
        var iterator = self.deliveries(of: push, to: rows, token: token, options: options).makeAsyncIterator()
        while try await iterator.next() != nil {}
        return iterator.call.summary ?? BulkSummary()
    }

    /// Sends one push to the device token of each row, counts the outcomes, and reports the tokens that are dead.
    ///
    /// - Parameters:
    ///   - push: a notification, which is encoded once, when you call this function, or a prepared push. If it cannot
    ///     be prepared, each row ends as `validation`, not sent.
    ///   - rows: the input. A separate task pulls it, a few rows ahead of those in flight.
    ///   - token: the row's device token, or its text. If it throws, or the text is not a device token, the row ends as
    ///     `validation`, not sent.
    ///   - options: concurrency, rate, deadline and control.
    ///   - onInvalidToken: called for each row whose device token APNs reports as invalid (410), one after the other,
    ///     in the caller's task. Meanwhile other pushes continue. If it throws, no further row is sent, and pushes in
    ///     flight finish.
    /// - Returns: the number of outcomes of each kind, and whether the call reached the end of `rows`.
    /// - Throws: the error of the input or of `onInvalidToken`. The progress of the control in `options` has the counts
    ///   up to then.
    public func sendAll<Rows: AsyncSequence & Sendable, Token: DeviceTokenConvertible>(
        _ push: some PushContent,
        to rows: Rows,
        token: @escaping (Rows.Element) throws -> Token,
        options: BulkOptions = BulkOptions(),
        onInvalidToken: (Rows.Element, TokenInvalidation) async throws -> Void
    ) async throws -> BulkSummary where Rows.Element: Sendable {
        var iterator = self.deliveries(of: push, to: rows, token: token, options: options).makeAsyncIterator()
        while let delivery = try await iterator.next() {
            if let invalidation = delivery.outcome.invalidation {
                try await onInvalidToken(delivery.element, invalidation)
            }
        }
        return iterator.call.summary ?? BulkSummary()
    }

    /// Sends one push to many device tokens and counts the outcomes.
    ///
    /// - Parameters:
    ///   - push: a notification, which is encoded once, when you call this function, or a prepared push. If it cannot
    ///     be prepared, each token ends as `validation`, not sent.
    ///   - tokens: device tokens or their text. A separate task pulls them, a few ahead of those in flight.
    ///   - options: concurrency, rate, deadline and control.
    /// - Returns: the number of outcomes of each kind, and whether the call reached the end of `tokens`.
    /// - Throws: the input's error. The progress of the control in `options` has the counts up to then.
    public func sendAll<Tokens: AsyncSequence & Sendable>(
        _ push: some PushContent,
        to tokens: Tokens,
        options: BulkOptions = BulkOptions()
    ) async throws(Tokens.Failure) -> BulkSummary where Tokens.Element: DeviceTokenConvertible & Sendable {
        try await self.sendAll(push, to: tokens, token: { $0 }, options: options)
    }

    /// Sends one push to many device tokens, counts the outcomes, and reports the tokens that are dead.
    ///
    /// - Parameters:
    ///   - push: a notification, which is encoded once, when you call this function, or a prepared push. If it cannot
    ///     be prepared, each token ends as `validation`, not sent.
    ///   - tokens: device tokens or their text. A separate task pulls them, a few ahead of those in flight.
    ///   - options: concurrency, rate, deadline and control.
    ///   - onInvalidToken: called for each device token that APNs reports as invalid (410), one after the other, in the
    ///     caller's task. If it throws, no further token is sent to, and pushes in flight finish.
    /// - Returns: the number of outcomes of each kind, and whether the call reached the end of `tokens`.
    /// - Throws: the error of the input or of `onInvalidToken`. The progress of the control in `options` has the counts
    ///   up to then.
    public func sendAll<Tokens: AsyncSequence & Sendable>(
        _ push: some PushContent,
        to tokens: Tokens,
        options: BulkOptions = BulkOptions(),
        onInvalidToken: (Tokens.Element, TokenInvalidation) async throws -> Void
    ) async throws -> BulkSummary where Tokens.Element: DeviceTokenConvertible & Sendable {
        try await self.sendAll(push, to: tokens, token: { $0 }, options: options, onInvalidToken: onInvalidToken)
    }
}
