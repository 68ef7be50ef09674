#if NATS
    import APNSModel
    import Dispatch
    import Foundation
    import NATSPushQueue
    import NATSTestServer
    import PushQueue
    import Testing

    @testable import APNSRelay

    /// Publishers and real brokers.
    @Suite(.timeLimit(.minutes(3)), .serialized) struct NATSOutcomeStreamTests {
        private static let stream = "$JS.API.STREAM"
        private let disk = FeedQueue.Disk()

        private func options(_ servers: [NATSServer], replicas: Int = 1) -> NATSOptions {
            NATSOptions(servers: servers.map(\.url), stream: "Q", replicas: replicas, publishesOutcomes: true)
        }

        private func publisher(_ options: NATSOptions) -> OutcomePublisher {
            OutcomePublisher(
                NATSOutcomeStream(options, maximumAge: .seconds(3_600)),
                queue: FeedQueue(self.disk),
                metrics: RelayMetrics(factory: PrometheusMetrics()),
                clock: SystemQueueClock(),
                logger: FleetFixture.logger,
                retention: .seconds(3_600)
            )
        }

        private func settle(_ positions: ClosedRange<Int64>) throws {
            for position in positions {
                self.disk.settle(try .sample(at: SystemQueueClock().now), at: position)
            }
        }

        private func messages(_ cursors: ClosedRange<Int64>) -> [OutcomeMessage] {
            cursors.map { OutcomeMessage(cursor: $0, app: "fern", kind: "accepted", body: Array("\($0)".utf8)) }
        }

        @Test("The stream has each outcome with its subject and headers; consumers select by app and kind")
        func subjects() async throws {
            let server = try NATSServer()
            let gone = Rejection(status: 410, reason: .unregistered, timestamp: 1_795_000_000_000)
            let id = APNSID.random()
            let dead = PushOutcome.rejected(.rejected(gone, attempts: 1))
            for position in 1...30 as ClosedRange<Int64> {
                let app = position.isMultiple(of: 3) ? "moss" : "fern"
                let outcome = position.isMultiple(of: 5) ? dead : PushOutcome.accepted(Receipt(apnsID: id))
                self.disk.settle(try .sample(app: app, outcome: outcome, at: SystemQueueClock().now), at: position)
            }
            let task = Task { await self.publisher(self.options([server])).run() }
            let stored = try await Stored.wait(30, server)
            task.cancel()
            await task.value
            #expect(stored.map(\.cursor) == Array(1...30))
            #expect(stored[14].subject == "Q.outcomes.moss.invalidToken")
            #expect(stored[0].subject == "Q.outcomes.fern.accepted")
            #expect(stored[0].headers.contains("Nats-Msg-Id: 1\r\n"))
            #expect(stored[0].body.contains(#""cursor":"1""#) && stored[0].body.contains(#""outcome":"accepted""#))
            for (filter, count) in [
                ("Q.outcomes.moss.>", 10), ("Q.outcomes.*.invalidToken", 6), ("Q.outcomes.fern.invalidToken", 4),
            ] {
                let response = try server.request(
                    "$JS.API.CONSUMER.CREATE.Q_OUTCOMES",
                    #"{"stream_name":"Q_OUTCOMES","config":{"ack_policy":"explicit","filter_subject":"\#(filter)"}}"#
                )
                #expect(response.contains(#""num_pending":\#(count)"#), "\(filter): \(response)")
            }
            let info = try server.request("\(Self.stream).INFO.Q_OUTCOMES")
            for setting in [#""discard":"old""#, #""max_age":3600000000000"#, #""storage":"file""#] {
                #expect(info.contains(setting), "\(info)")
            }
        }

        @Test("If the broker refuses a message, it takes none of the later ones of the call", arguments: [1, 3])
        func refusedInTheMiddle(replicas: Int) async throws {
            let servers = replicas == 1 ? [try NATSServer()] : try NATSServer.cluster(3)
            // Existing streams are used as they are.
            let created = try servers[0].request(
                "\(Self.stream).CREATE.Q_OUTCOMES",
                """
                {"name":"Q_OUTCOMES","subjects":["Q.outcomes.>"],"retention":"limits","discard":"old","storage":"file",\
                "num_replicas":\(replicas),"max_msg_size":2000,"max_msgs":-1,"max_bytes":-1,"max_consumers":-1}
                """
            )
            #expect(!created.contains("error"), "\(created)")
            let stream = NATSOutcomeStream(self.options(servers, replicas: replicas), maximumAge: .seconds(60))
            var messages = self.messages(1...300)
            messages[149].body = [UInt8](repeating: 120, count: 4_000)
            let empty = try await Self.end(of: stream)
            #expect(empty == OutcomeStreamEnd())
            let isStored = try await stream.append(messages, after: 0)
            #expect(!isStored)
            let end = try await stream.end()
            #expect(end == OutcomeStreamEnd(sequence: 149, cursor: 149))
            // As the first one, it says why.
            let error = await #expect(throws: QueueError.self) {
                _ = try await stream.append(Array(messages[149...]), after: 149)
            }
            #expect(error?.message.contains("exceeds") == true, "\(String(describing: error))")
            messages[149].body = []
            let isRestStored = try await stream.append(Array(messages[149...]), after: 149)
            #expect(isRestStored)
            // A copy of what is there, and a position that is not the end.
            let isCopyStored = try await stream.append(Array(messages[149...]), after: 149)
            #expect(isCopyStored)
            let isLateStored = try await stream.append(self.messages(400...410), after: 149)
            #expect(!isLateStored)
            let stored = try await Stored.wait(300, servers[0])
            #expect(stored.map(\.cursor) == Array(1...300))
            await stream.close()
        }

        /// A stream of several brokers has no leader for a moment.
        private static func end(of stream: NATSOutcomeStream) async throws -> OutcomeStreamEnd {
            for _ in 0..<20 {
                if let end = try? await stream.end() { return end }
            }
            return try await stream.end()
        }

        @Test("Two publishers at once, and brokers that are killed: each outcome is there once, in order")
        func killed() async throws {
            let server = try NATSServer()
            let publishers = (0..<2).map { _ in self.publisher(self.options([server])) }
            let tasks = publishers.map { publisher in Task { await publisher.run() } }
            for round in 0..<6 as Range<Int64> {
                // The publishers send this while the broker dies.
                try self.settle((round * 400 + 1)...(round * 400 + 400))
                for publisher in publishers { publisher.signal() }
                for _ in 0..<round * 40 { await Task.yield() }
                if round.isMultiple(of: 2) {
                    try await Self.blocking { server.kill() }
                    try await Self.blocking { try server.start() }
                } else {
                    _ = try await Stored.wait(Int(round * 400), server)
                }
            }
            let stored = try await Stored.wait(2_400, server)
            #expect(stored.map(\.cursor) == Array(1...2_400))
            for task in tasks {
                task.cancel()
                await task.value
            }
        }

        @Test("Two publishers at once, and a cluster whose leader is killed")
        func killedLeader() async throws {
            let servers = try await Self.blocking { try NATSServer.cluster(3) }
            let publishers = (0..<2).map { _ in self.publisher(self.options(servers, replicas: 3)) }
            let tasks = publishers.map { publisher in Task { await publisher.run() } }
            try self.settle(1...700)
            _ = try await Stored.wait(700, servers[0])
            let leader = try #require(Self.leader(servers))
            try self.settle(701...1_400)
            for publisher in publishers { publisher.signal() }
            for _ in 0..<200 { await Task.yield() }
            try await Self.blocking { servers[leader].kill() }
            let stored = try await Stored.wait(1_400, servers[(leader + 1) % 3])
            #expect(stored.map(\.cursor) == Array(1...1_400))
            for task in tasks {
                task.cancel()
                await task.value
            }
        }

        private static func leader(_ servers: [NATSServer]) -> Int? {
            // A broker that has just started does not answer yet.
            for number in 0..<30 {
                guard let name = servers[number % 3].leader(of: "Q_OUTCOMES") else { continue }
                return name.split(separator: "-").last.flatMap { Int($0) }
            }
            return nil
        }

        @Test("A stream that was deleted is created again, with all outcomes that are kept")
        func deleted() async throws {
            let server = try NATSServer()
            try self.settle(1...10)
            let publisher = self.publisher(self.options([server]))
            let task = Task { await publisher.run() }
            _ = try await Stored.wait(10, server)
            _ = try server.request("\(Self.stream).DELETE.Q_OUTCOMES")
            try self.settle(11...12)
            publisher.signal()
            let stored = try await Stored.wait(12, server)
            #expect(stored.map(\.cursor) == Array(1...12))
            task.cancel()
            await task.value
        }

        @Test("While the broker's disk is full, outcomes wait; after a restart with room, all are published")
        func fullDisk() async throws {
            let server = try await Self.blocking { try NATSServer(storeBytes: 16 << 20) }
            try self.settle(1...10)
            let publisher = self.publisher(self.options([server]))
            let task = Task { await publisher.run() }
            _ = try await Stored.wait(10, server)
            try await Self.blocking { try server.fillDisk() }
            try self.settle(11...2_000)
            publisher.signal()
            let isFailing = try await eventually { publisher.isFailing }
            #expect(isFailing)
            #expect(publisher.oldest != nil)
            try await Self.blocking { try server.freeDisk() }
            // nats-server 2.9.10 answers no request about the stream any more until it is started again.
            try await Self.blocking { try server.restart() }
            let stored = try await Stored.wait(2_000, server)
            #expect(stored.map(\.cursor) == Array(1...2_000))
            task.cancel()
            await task.value
        }

        @Test("A message of somebody else at the end of the stream is an error that says what to do")
        func foreign() async throws {
            let server = try NATSServer()
            let stream = NATSOutcomeStream(self.options([server]), maximumAge: .seconds(60))
            _ = try await stream.end()
            _ = try server.request("Q.outcomes.fern.accepted", "{}")
            let error = await #expect(throws: QueueError.self) { _ = try await stream.end() }
            #expect(error?.code == .unusable)
            await stream.close()
        }

        @Test("Without a broker, calls fail as unavailable; with one, the same stream works")
        func away() async throws {
            let server = try NATSServer()
            let stream = NATSOutcomeStream(self.options([server]), maximumAge: .seconds(60))
            try await Self.blocking { server.kill() }
            let error = await #expect(throws: QueueError.self) { _ = try await stream.end() }
            #expect(error?.code == .unavailable)
            try await Self.blocking { try server.start() }
            _ = try await stream.end()
            let isStored = try await stream.append(self.messages(1...3), after: 0)
            #expect(isStored)
            await stream.close()
        }

        private static func blocking<Value: Sendable>(
            _ body: @escaping @Sendable () throws -> Value
        ) async throws -> Value {
            try await withCheckedThrowingContinuation { continuation in
                DispatchQueue.global().async { continuation.resume(with: Result { try body() }) }
            }
        }
    }

    /// A message of the stream, as the broker has it.
    private struct Stored {
        var subject: String
        var headers: String
        var body: String

        var cursor: Int64? {
            self.headers.firstMatch(of: /Apns-Relay-Cursor: (\d+)\r\n/).flatMap { Int64($0.1) }
        }

        private struct Response: Decodable {
            struct Message: Decodable {
                var subject: String
                var hdrs: Data?
                var data: Data?
            }
            var message: Message?
        }

        /// Waits until the stream has so many messages, and reads them in their order.
        static func wait(_ count: Int, _ server: NATSServer) async throws -> [Stored] {
            for _ in 0..<2_000 {
                let info = try? server.request("$JS.API.STREAM.INFO.Q_OUTCOMES")
                let number = info?.firstMatch(of: /"messages":(\d+)/).flatMap { Int($0.1) } ?? 0
                if number >= count { break }
                try await Task.sleep(for: .milliseconds(20))
            }
            var messages: [Stored] = []
            while let message = try self.read(messages.count + 1, server) { messages.append(message) }
            return messages
        }

        private static func read(_ sequence: Int, _ server: NATSServer) throws -> Stored? {
            let response = try server.request("$JS.API.STREAM.MSG.GET.Q_OUTCOMES", #"{"seq":\#(sequence)}"#)
            return try JSONDecoder().decode(Response.self, from: Data(response.utf8)).message.map { message in
                Stored(
                    subject: message.subject,
                    headers: String(decoding: message.hdrs ?? Data(), as: UTF8.self),
                    body: String(decoding: message.data ?? Data(), as: UTF8.self)
                )
            }
        }
    }
#endif
