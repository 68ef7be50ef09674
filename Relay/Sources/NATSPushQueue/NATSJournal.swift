#if NATS
    import APNSModel
    import Dispatch
    import JournalPushQueue
    import PushQueue
    import Synchronization

    /// A journal in a JetStream stream.
    ///
    /// Functions of libnats that block run on queues of Dispatch, never on the threads of Swift's tasks.
    final class NATSJournal: Journal {
        private struct State {
            var reader: Subscription?
            var replies: Subscription?
            var isClosed = false
            /// Increases with each call of `read`, so that only the last one subscribes.
            var reads = 0
        }

        private let connection: Connection
        private let context: JetStream
        private let options: NATSOptions
        private let handler: UInt
        private let inbox: String
        let events: JournalEvents
        private let store: SnapshotStore
        private let state = Mutex(State())
        private let publishing = DispatchQueue(label: "apns-relay.nats.publish")
        private let snapshots = DispatchQueue(label: "apns-relay.nats.snapshots")
        private let control: DispatchQueue
        let maximumRecord: Int

        private init(
            _ options: NATSOptions,
            _ context: JetStream,
            _ name: String,
            _ handler: UInt,
            _ control: DispatchQueue,
            _ events: JournalEvents
        ) throws(QueueError) {
            self.store = SnapshotStore(context: context, options: options, journal: name)
            self.options = options
            self.connection = context.connection
            self.context = context
            self.handler = handler
            self.control = control
            self.events = events
            self.inbox = "_INBOX.apns-relay.\(APNSID.random())"
            // A broker handles several small messages better than one of the largest size.
            self.maximumRecord = max(min(self.connection.maximumPayload - 1_024, 256 * 1_024), 1_024)
            let replies = try Subscription.replies(self.connection, inbox: self.inbox, handler: handler)
            self.state.withLock { $0.replies = replies }
        }

        /// Connects and opens the streams.
        ///
        /// - Parameter timeout: how long to wait for connected brokers that are not ready.
        static func open(_ options: NATSOptions, timeout: Duration) async throws(QueueError) -> NATSJournal {
            let control = DispatchQueue(label: "apns-relay.nats.control")
            return try await control.perform { () throws(QueueError) in try Self.open(options, timeout, control) }
        }

        private static func open(
            _ options: NATSOptions,
            _ timeout: Duration,
            _ control: DispatchQueue
        ) throws(QueueError) -> NATSJournal {
            let events = JournalEvents()
            let handler = HandlerTable.shared.add { events.add($0) }
            do throws(QueueError) {
                // The queue gathers calls itself, so its messages wait for no others.
                let context = try JetStream(Connection(options, handler: handler))
                let name = try context.openStreams(options, timeout: timeout)
                return try NATSJournal(options, context, name, handler, control, events)
            } catch {
                HandlerTable.shared.remove(handler)
                throw error
            }
        }

        /// Connects, and says in what state the stream is. Creates nothing.
        static func describe(_ options: NATSOptions) async throws(QueueError) -> String {
            try await DispatchQueue.global().perform { () throws(QueueError) in
                try JetStream(Connection(options, handler: 0)).describe(options)
            }
        }

        func read(after sequence: UInt64) {
            let number = self.state.withLock { state in
                state.reads += 1
                return state.reads
            }
            self.control.async {
                let (isWanted, old) = self.state.withLock { state in
                    guard state.reads == number, !state.isClosed else { return (false, Subscription?.none) }
                    defer { state.reader = nil }
                    return (true, state.reader)
                }
                guard isWanted else { return }
                _ = consume old
                do throws(QueueError) {
                    self.events.add(.extent(try self.context.extent(self.options.stream)))
                    let new = try Subscription.journal(
                        self.context,
                        self.options,
                        after: sequence,
                        handler: self.handler
                    )
                    self.state.withLock { $0.reader = $0.isClosed ? nil : new }
                } catch {
                    // Without a reader, no event would come. The queue asks again then.
                    self.events.add(.interrupted)
                }
            }
        }

        func append(_ record: [UInt8], id: String, number: UInt64) {
            let reply = "\(self.inbox).\(number)"
            self.publishing.async {
                guard !self.state.withLock({ $0.isClosed }) else { return }
                // What could not be sent is appended again by the queue.
                try? self.connection.publish(
                    record,
                    to: self.options.subject,
                    reply: reply,
                    headers: [("Nats-Msg-Id", id)]
                )
            }
        }

        func newestSnapshot() async throws(QueueError) -> JournalSnapshot? {
            try await self.snapshots.perform { () throws(QueueError) in try self.store.newest() }
        }

        func load(_ snapshot: JournalSnapshot, into file: String) async throws(QueueError) -> Bool {
            try await self.snapshots.perform { () throws(QueueError) in try self.store.load(snapshot, into: file) }
        }

        func store(_ snapshot: JournalSnapshot, from file: String) async throws(QueueError) {
            try await self.snapshots.perform { () throws(QueueError) in try self.store.store(snapshot, from: file) }
        }

        func deleteEntries(before sequence: UInt64) async throws(QueueError) {
            try await self.snapshots.perform { () throws(QueueError) in
                try self.context.purge(self.options.stream, before: sequence)
            }
        }

        func close() async {
            HandlerTable.shared.remove(self.handler)
            self.events.close()
            self.state.withLock { $0.isClosed = true }
            await self.control.perform {
                let subscriptions = self.state.withLock { state in
                    defer { (state.reader, state.replies) = (nil, nil) }
                    return [state.reader, state.replies]
                }
                _ = consume subscriptions
                self.connection.close()
            }
        }
    }
#endif
