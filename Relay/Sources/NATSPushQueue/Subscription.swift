#if NATS
    import CNATS
    import JournalPushQueue
    import PushQueue

    /// The owner of a `natsSubscription`.
    // Sendable because libnats locks the subscription in each function, and the pointer never changes.
    final class Subscription: @unchecked Sendable {
        private let pointer: OpaquePointer
        /// Subscriptions end before their connection.
        private let connection: Connection

        private init(_ pointer: OpaquePointer?, _ connection: Connection) throws(QueueError) {
            guard let pointer else {
                throw QueueError(code: .unavailable, message: "Subscribing gave no subscription.")
            }
            self.pointer = pointer
            self.connection = connection
            // A dropped message would be read again, which takes longer than to hold it.
            _ = natsSubscription_SetPendingLimits(pointer, -1, -1)
        }

        deinit {
            _ = natsSubscription_Unsubscribe(self.pointer)
            natsSubscription_Destroy(self.pointer)
        }

        /// Reads a stream from a position on. Blocks until the broker has responded.
        static func journal(
            _ context: JetStream,
            _ options: NATSOptions,
            after sequence: UInt64,
            handler: UInt
        ) throws(QueueError) -> Subscription {
            var settings = jsSubOptions()
            try QueueError.check(jsSubOptions_Init(&settings), "Preparing a subscription")
            settings.Config.DeliverPolicy = js_DeliverByStartSequence
            settings.Config.OptStartSeq = sequence == .max ? sequence : sequence + 1
            settings.Config.AckPolicy = js_AckNone
            settings.Config.Heartbeat = 2_000_000_000
            settings.Config.FlowControl = true
            settings.Config.MemoryStorage = true
            settings.Config.Replicas = 1
            var pointer: OpaquePointer?
            let status = options.stream.withCString { stream in
                settings.Stream = stream
                return js_Subscribe(
                    &pointer,
                    context.pointer,
                    options.subject,
                    { _, _, message, closure in Subscription.receive(message, closure) },
                    UnsafeMutableRawPointer(bitPattern: handler),
                    nil,
                    &settings,
                    nil
                )
            }
            try QueueError.check(status, "Reading the stream \(options.stream)")
            return try Subscription(pointer, context.connection)
        }

        private static func receive(_ message: OpaquePointer?, _ closure: UnsafeMutableRawPointer?) {
            defer { natsMsg_Destroy(message) }
            var metadata: UnsafeMutablePointer<jsMsgMetaData>?
            guard natsMsg_GetMetaData(&metadata, message) == NATS_OK, let metadata else { return }
            defer { jsMsgMetaData_Destroy(metadata) }
            let entry = JournalEntry(
                sequence: metadata.pointee.Sequence.Stream,
                time: QueueTime(millisecondsSince1970: metadata.pointee.Timestamp / 1_000_000),
                record: Message.bytes(of: message)
            )
            HandlerTable.shared.send(.entry(entry), to: closure)
        }

        /// Receives the broker's responses to published messages. The last part of their subject is a command's number.
        static func replies(_ connection: Connection, inbox: String, handler: UInt) throws(QueueError) -> Subscription {
            var pointer: OpaquePointer?
            let status = natsConnection_Subscribe(
                &pointer,
                connection.pointer,
                "\(inbox).*",
                { _, _, message, closure in Subscription.receiveReply(message, closure) },
                UnsafeMutableRawPointer(bitPattern: handler)
            )
            try QueueError.check(status, "Subscribing to responses")
            return try Subscription(pointer, connection)
        }

        /// Receives the broker's responses to published messages, for ``next(before:)``.
        static func waiting(_ connection: Connection, inbox: String) throws(QueueError) -> Subscription {
            var pointer: OpaquePointer?
            try QueueError.check(
                natsConnection_SubscribeSync(&pointer, connection.pointer, "\(inbox).>"),
                "Subscribing to responses"
            )
            return try Subscription(pointer, connection)
        }

        /// Waits for the next response. Blocks.
        ///
        /// - Returns: its subject, and what it says; nil if no stream has the published message's subject.
        func next(before deadline: ContinuousClock.Instant) throws(QueueError) -> (String, PublishReply?) {
            let milliseconds = ContinuousClock.now.duration(to: deadline) / .milliseconds(1)
            var message: OpaquePointer?
            try QueueError.check(
                natsSubscription_NextMsg(&message, self.pointer, Int64(min(max(milliseconds, 0), 60_000)) + 1),
                "Waiting for the broker's response"
            )
            defer { natsMsg_Destroy(message) }
            let subject = natsMsg_GetSubject(message).map { String(cString: $0) } ?? ""
            guard !natsMsg_IsNoResponders(message) else { return (subject, nil) }
            guard let reply = try? PublishReply(Message.bytes(of: message)) else {
                throw QueueError(code: .unavailable, message: "The broker's response to a message cannot be read.")
            }
            return (subject, reply)
        }

        private static func receiveReply(_ message: OpaquePointer?, _ closure: UnsafeMutableRawPointer?) {
            defer { natsMsg_Destroy(message) }
            guard !natsMsg_IsNoResponders(message) else { return }
            guard let refusal = PublishReply.refusal(Message.bytes(of: message)),
                let subject = natsMsg_GetSubject(message).map({ String(cString: $0) }),
                let number = subject.split(separator: ".").last.flatMap({ UInt64($0) })
            else { return }
            HandlerTable.shared.send(
                .refused(number: number, reason: refusal.text, isFull: refusal.isFullStream),
                to: closure
            )
        }
    }
#endif
