#if NATS
    import APNSModel
    import CNATS
    import Dispatch
    package import PushQueue
    import Synchronization

    /// A stream of outcomes in JetStream, with a connection of its own.
    ///
    /// The messages of a call are sent without waiting for each other. Each one names the number of the message that must
    /// be the last one, so once a message is refused, the broker refuses all later ones of the call, too. The replicas of
    /// a stream check this when they store the message, so it also holds when another broker becomes the leader.
    ///
    /// Two relays that publish at the same time send the same messages after the same end of the stream. It does not
    /// matter whose copy of a message is stored.
    package final class NATSOutcomeStream: OutcomeStream {
        /// What ends with a connection.
        private struct Session: Sendable {
            var context: JetStream
            var replies: Subscription
            var inbox: String
        }

        private struct State {
            var session: Session?
            /// Counts the calls, so that late replies are told apart.
            var calls: UInt64 = 0
        }

        /// The header with the cursor.
        static let cursorHeader = "Apns-Relay-Cursor"
        /// How long the broker may take to store the messages of a call.
        private static let timeout = Duration.seconds(5)

        private let options: NATSOptions
        private let maximumAge: Duration
        private let blocking = DispatchQueue(label: "apns-relay.nats.outcomes")
        /// Used on the queue `blocking` only.
        private let state = Mutex(State())

        /// - Parameters:
        ///   - options: where the brokers are, and the names of the streams.
        ///   - maximumAge: how long the stream keeps messages. Used when the stream is created.
        package init(_ options: NATSOptions, maximumAge: Duration) {
            self.options = options
            self.maximumAge = maximumAge
        }

        package func end() async throws(QueueError) -> OutcomeStreamEnd {
            try await self.run { session, _ throws(QueueError) in
                try session.context.endOfOutcomes(self.options, maximumAge: self.maximumAge)
            }
        }

        package func append(
            _ messages: [OutcomeMessage],
            after sequence: UInt64
        ) async throws(QueueError) -> Bool {
            try await self.run { session, call throws(QueueError) in
                try self.send(messages, after: sequence, session, call)
                return try self.waitUntilStored(messages.count, after: sequence, session, call)
            }
        }

        package func close() async {
            await self.blocking.perform { self.state.withLock { $0.session = nil } }
        }

        // MARK: Sending

        private func send(
            _ messages: [OutcomeMessage],
            after sequence: UInt64,
            _ session: Session,
            _ call: UInt64
        ) throws(QueueError) {
            var last = sequence
            for (index, message) in messages.enumerated() {
                // The response to the first message says why it is refused; that to the last one is about all of them.
                let hasReply = index == 0 || index == messages.count - 1
                try session.context.connection.publish(
                    message.body,
                    to: self.options.outcomesSubject(app: message.app, kind: message.kind),
                    reply: hasReply ? "\(session.inbox).\(call).\(index)" : nil,
                    headers: [
                        ("Nats-Msg-Id", "\(message.cursor)"), (Self.cursorHeader, "\(message.cursor)"),
                        ("Nats-Expected-Last-Sequence", "\(last)"),
                    ]
                )
                last &+= 1
            }
        }

        private func waitUntilStored(
            _ count: Int,
            after sequence: UInt64,
            _ session: Session,
            _ call: UInt64
        ) throws(QueueError) -> Bool {
            let deadline = ContinuousClock.now.advanced(by: Self.timeout)
            while true {
                let (subject, response) = try session.replies.next(before: deadline)
                let parts = subject.split(separator: ".").suffix(2)
                guard parts.first == "\(call)", let index = parts.last.flatMap({ Int($0) }) else { continue }
                guard let response else { throw Self.missing(self.options.outcomesStream) }
                if let error = response.error {
                    if error.isWrongSequence { return false }
                    throw QueueError(
                        code: .unavailable,
                        message: "The broker did not store an outcome in the stream \(self.options.outcomesStream): "
                            + "\(error.text). Check the disk and the limits of the stream."
                    )
                }
                // A message with the same cursor may have been stored at another position before.
                guard response.seq == sequence &+ UInt64(index) &+ 1 else { return false }
                if index == count - 1 { return true }
            }
        }

        private static func missing(_ stream: String) -> QueueError {
            QueueError(code: .unavailable, message: "The stream \(stream) does not exist, or has no leader now.")
        }

        // MARK: The connection

        /// Runs a body that blocks. After an error, the next call opens a new connection: messages that the old one still
        /// holds are not sent.
        private func run<Value: Sendable>(
            _ body: @escaping @Sendable (Session, UInt64) throws(QueueError) -> Value
        ) async throws(QueueError) -> Value {
            try await self.blocking.perform { () throws(QueueError) in try self.runNow(body) }
        }

        private func runNow<Value>(
            _ body: (Session, UInt64) throws(QueueError) -> Value
        ) throws(QueueError) -> Value {
            var (session, call) = self.state.withLock { state in
                state.calls &+= 1
                return (state.session, state.calls)
            }
            do throws(QueueError) {
                let open: Session
                if let session { open = session } else { open = try self.open() }
                session = open
                let value = try body(open, call)
                self.state.withLock { $0.session = open }
                return value
            } catch {
                session?.context.connection.close()
                self.state.withLock { $0.session = nil }
                throw error
            }
        }

        private func open() throws(QueueError) -> Session {
            let connection = try Connection(self.options, handler: 0, sendsAtOnce: false)
            let inbox = "_INBOX.apns-relay.\(APNSID.random())"
            return Session(
                context: try JetStream(connection),
                replies: try Subscription.waiting(connection, inbox: inbox),
                inbox: inbox
            )
        }
    }
#endif
