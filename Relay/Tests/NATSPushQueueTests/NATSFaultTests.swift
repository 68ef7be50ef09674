#if NATS
    import APNSModel
    import JournalPushQueue
    import NATSPushQueue
    import NATSTestServer
    import PushQueue
    import Testing

    /// Several relays, and brokers that fail.
    @Suite(.timeLimit(.minutes(1))) struct NATSFaultTests {
        private static let route = Route(app: "fern", environment: "production", lane: .bulk)

        private let files: CopyFiles

        init() throws { self.files = try CopyFiles() }

        private func options(_ server: NATSServer) -> NATSOptions {
            NATSOptions(servers: [server.url], stream: "Q")
        }

        private func push(_ number: Int) throws -> NewPush {
            let now = SystemQueueClock().now
            return NewPush(
                id: .random(),
                route: Self.route,
                token: try DeviceToken("0123456789abcdef"),
                push: try PreparedPush(topic: "com.example.fern", pushType: .alert, payload: Array("{}".utf8)),
                caller: "shop",
                notBefore: now,
                deadline: now.advanced(by: .seconds(3_600)),
                idempotency: IdempotencyKey(key: "order-\(number)", digest: [1])
            )
        }

        /// Claims, marks and settles until nothing is due.
        private func sendAll(_ queue: any PushQueue) async throws -> [APNSID] {
            var sent: [APNSID] = []
            while true {
                let claims = try await queue.claim(Self.route, limit: 7, lease: .seconds(60))
                    .map(\.claim)
                guard !claims.isEmpty else { return sent }
                let marks = try await queue.markWritten(claims, lease: .seconds(60))
                let written = zip(claims, marks).filter(\.1).map(\.0)
                sent += written.map(\.id)
                _ = try await queue.settle(
                    written.map { Settlement(claim: $0, outcome: .accepted(Receipt(apnsID: $0.id))) }
                )
            }
        }

        /// Enqueues until entries of the journal were deleted.
        ///
        /// - Returns: the number of pushes.
        private func enqueueUntilPurged(_ queue: any PushQueue, _ server: NATSServer) async throws -> Int {
            for round in 0..<500 {
                let pushes = try (0..<50).map { try self.push(round * 50 + $0) }
                _ = try await queue.enqueue(pushes, isPartial: false)
                if let first = try server.firstSequence(of: "Q"), first > 1 { return (round + 1) * 50 }
            }
            Issue.record("no entry was deleted")
            return 0
        }

        private func feed(_ queue: any PushQueue) async throws -> [APNSID] {
            try await queue.outcomes(after: nil, apps: nil, kind: .outcomes, limit: 10_000).entries.map(\.push.id)
        }

        @Test("Relays that race for the same pushes never send one twice, and have the same feed")
        func relays() async throws {
            let server = try NATSServer()
            var queues: [any PushQueue] = []
            for _ in 0..<3 { queues.append(try await NATSPushQueue.open(self.options(server), self.files)) }
            let pushes = try (0..<300).map { try self.push($0) }
            for first in stride(from: 0, to: 300, by: 100) {
                _ = try await queues[0].enqueue(Array(pushes[first..<first + 100]), isPartial: false)
            }
            let sent = try await withThrowingTaskGroup(of: [APNSID].self) { group in
                for queue in queues { for _ in 0..<2 { group.addTask { try await self.sendAll(queue) } } }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            // The last calls of the others may not have been read yet; a call reads all before it.
            for queue in queues { try await queue.setValue([1], forKey: "end") }
            let feeds = [
                try await self.feed(queues[0]), try await self.feed(queues[1]), try await self.feed(queues[2]),
            ]
            for queue in queues { await queue.close() }
            #expect(sent.count == 300)
            #expect(Set(sent) == Set(pushes.map(\.id)))
            #expect(Set(feeds[0]) == Set(sent))
            #expect(feeds[0] == feeds[1] && feeds[1] == feeds[2])
        }

        @Test("Calls go on when a killed broker is back, and nothing is lost or stored twice")
        func killedBroker() async throws {
            let server = try NATSServer()
            let queue = try await NATSPushQueue.open(self.options(server), self.files)
            for round in 0..<3 {
                let storing = Task {
                    try await withThrowingTaskGroup(of: [EnqueueResult].self) { group in
                        for number in 0..<50 {
                            let push = try self.push(round * 50 + number)
                            group.addTask { try await queue.enqueue([push], isPartial: false) }
                        }
                        return try await group.reduce(into: []) { $0 += $1 }
                    }
                }
                for _ in 0..<round * 40 { await Task.yield() }
                server.kill()
                try server.start()
                let results = try await storing.value
                #expect(results == Array(repeating: .queued, count: 50))
            }
            let reader = try await NATSPushQueue.open(self.options(server), self.files)
            let counts = try await reader.counts()
            #expect(counts.queued == 150)
            let sent = try await self.sendAll(reader)
            #expect(Set(sent).count == 150 && sent.count == 150)
            await queue.close()
            await reader.close()
        }

        @Test("A call is undecided while the broker is away, and has no effect after the next call")
        func brokerAway() async throws {
            let server = try NATSServer()
            let queue = try await NATSPushQueue.open(self.options(server), self.files, timeout: .seconds(1))
            server.kill()
            let push = try self.push(1)
            let error = await #expect(throws: QueueError.self) {
                _ = try await queue.enqueue([push], isPartial: false)
            }
            #expect(error?.code == .undecided)
            try server.start()
            // Until the connection is back.
            while (try? await queue.setValue([1], forKey: "back")) == nil {}
            let before = try await queue.counts().queued
            let results = try await queue.enqueue([push], isPartial: false)
            #expect(before == 0 ? results == [.queued] : results == [.duplicate(of: push.id)])
            let counts = try await queue.counts()
            #expect(counts.queued == 1)
            await queue.close()
        }

        @Test("Relays that store snapshots while they race read the same queue as one that opens later")
        func snapshots() async throws {
            let server = try NATSServer()
            var queues: [any PushQueue] = []
            for _ in 0..<3 {
                queues.append(
                    try await NATSPushQueue.open(self.options(server), self.files, snapshotBytes: 5_000)
                )
            }
            let pushes = try (0..<200).map { try self.push($0) }
            for push in pushes { _ = try await queues[0].enqueue([push], isPartial: false) }
            let sent = try await withThrowingTaskGroup(of: [APNSID].self) { group in
                for queue in queues { group.addTask { try await self.sendAll(queue) } }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            for queue in queues { try await queue.setValue([1], forKey: "end") }
            let feed = try await self.feed(queues[1])
            for queue in queues { await queue.close() }
            let reader = try await NATSPushQueue.open(self.options(server), self.files)
            let later = try await self.feed(reader)
            let again = try await reader.enqueue([pushes[3]], isPartial: false)
            await reader.close()
            #expect(sent.count == 200)
            #expect(feed == later)
            #expect(again == [.duplicate(of: pushes[3].id)])
        }

        @Test("Relays that create the streams at the same moment share one queue")
        func openTogether() async throws {
            let server = try NATSServer()
            let queues = try await withThrowingTaskGroup(of: JournalPushQueue.self) { group in
                for _ in 0..<4 { group.addTask { try await NATSPushQueue.open(self.options(server), self.files) } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            _ = try await queues[0].enqueue([try self.push(1)], isPartial: false)
            for queue in queues {
                try await queue.setValue([1], forKey: "end")
                let counts = try await queue.counts()
                #expect(counts.queued == 1)
            }
            for queue in queues { await queue.close() }
        }

        @Test("While two of three brokers are down, calls fail, and the queue goes on when they are back")
        func withoutLeader() async throws {
            let servers = try NATSServer.cluster()
            let options = NATSOptions(servers: servers.map(\.url), stream: "Q", replicas: 3)
            let queue = try await NATSPushQueue.open(options, self.files, timeout: .seconds(3))
            for number in 0..<50 { _ = try await queue.enqueue([try self.push(number)], isPartial: false) }
            for server in servers[1...] { server.kill() }
            // Longer than a queue tolerates a journal that ends too early.
            for _ in 0..<3 {
                let error = await #expect(throws: QueueError.self) { try await queue.setValue([1], forKey: "a") }
                #expect(error?.code == .undecided)
            }
            for server in servers[1...] { try server.start() }
            let end = ContinuousClock.now.advanced(by: .seconds(30))
            while (try? await queue.setValue([2], forKey: "a")) == nil { try #require(ContinuousClock.now < end) }
            let counts = try await queue.counts()
            #expect(counts.queued == 50)
            await queue.close()
        }

        @Test("A call that a full stream refuses fails at once, and says so")
        func fullStream() async throws {
            let server = try NATSServer()
            var options = self.options(server)
            // Too little for a snapshot, which has the same limit.
            options.maximumBytes = 40_000
            let queue = try await NATSPushQueue.open(options, self.files)
            var stored = 0
            var refused: (push: NewPush, error: QueueError)?
            while refused == nil, stored < 1_000 {
                let push = try self.push(stored)
                do {
                    _ = try await queue.enqueue([push], isPartial: false)
                    stored += 1
                } catch {
                    refused = (push, error)
                }
            }
            let last = try #require(refused)
            #expect(last.error.code == .undecided)
            #expect(last.error.message.contains("maximum bytes exceeded"))
            let status = try await queue.status(of: last.push.id)
            #expect(status == nil)
            let counts = try await queue.counts()
            #expect(counts.queued == stored && stored > 10)
            await queue.close()
        }

        @Test("A stream that is full again and again gets room by snapshots, and nothing is lost")
        func roomInFullStream() async throws {
            let server = try NATSServer()
            var options = self.options(server)
            options.maximumBytes = 400_000
            let queue = try await NATSPushQueue.open(options, self.files)
            _ = try await queue.enqueue([try self.push(1)], isPartial: false)
            var refusals = 0
            // Three times the stream.
            for number in 0..<120 {
                let value = Array(repeating: UInt8(number), count: 10_000)
                let end = ContinuousClock.now.advanced(by: .seconds(20))
                while true {
                    do {
                        try await queue.setValue(value, forKey: "a")
                        break
                    } catch {
                        refusals += 1
                        try #require(ContinuousClock.now < end)
                    }
                }
            }
            #expect(refusals > 0)
            let reader = try await NATSPushQueue.open(options, self.files)
            let counts = try await reader.counts()
            let value = try await reader.value(forKey: "a")
            #expect(counts.queued == 1 && value?.first == 119)
            await queue.close()
            await reader.close()
        }

        @Test("A snapshot of a stream that was deleted is not used for the one with the same name")
        func otherJournal() async throws {
            let server = try NATSServer()
            let queue = try await NATSPushQueue.open(self.options(server), self.files, snapshotBytes: 1_000)
            _ = try await self.enqueueUntilPurged(queue, server)
            await queue.close()
            try server.delete("Q")
            let new = try await NATSPushQueue.open(self.options(server), self.files, snapshotBytes: 1_000)
            let counts = try await new.counts()
            #expect(counts.queued == 0)
            let count = try await self.enqueueUntilPurged(new, server)
            let reader = try await NATSPushQueue.open(self.options(server), self.files)
            let read = try await reader.counts()
            #expect(read.queued == count)
            await new.close()
            await reader.close()
        }

        @Test("Relays whose credentials the brokers refuse from now on say so and end")
        func refusedCredentials() async throws {
            let server = try NATSServer()
            let queue = try await NATSPushQueue.open(self.options(server), self.files)
            server.kill()
            try server.start(["--user", "relay", "--pass", "secret"])
            let failure = await queue.waitForFailure()
            #expect(failure?.code == .unusable)
            #expect(failure?.message.contains("credentials") == true)
            await queue.close()
        }

        @Test("A broker that is not there makes opening fail as unavailable")
        func noBroker() async throws {
            let error = await #expect(throws: QueueError.self) {
                _ = try await NATSPushQueue.open(NATSOptions(servers: ["nats://127.0.0.1:1"]), self.files)
            }
            #expect(error?.code == .unavailable)
            let name = await #expect(throws: QueueError.self) {
                _ = try await NATSPushQueue.open(
                    NATSOptions(servers: ["nats://127.0.0.1:1"], stream: "a.b"),
                    self.files
                )
            }
            #expect(name?.code == .unusable)
        }
    }
#endif
