#if NATS
    import APNSModel
    import Foundation
    import JournalPushQueue
    import Logging
    import NATSPushQueue
    import NATSTestServer
    import PushQueue
    import PushQueueConformance
    import Synchronization

    /// Opens queues in a stream of its own, each with a copy in a directory of its own.
    final class NATSFixture: QueueFixture {
        /// Shared by all cases. It ends with the process of the tests.
        static let server = Result { try NATSServer() }

        let lacks: Set<QueueAbility> = [.implausibleJump]
        let tick = Duration.seconds(1)
        let clock = ManualQueueClock(QueueTime(secondsSince1970: 1_800_000_000))
        private let options: NATSOptions
        private let files: CopyFiles
        private let capacity = Mutex(Int?.none)

        init(_ server: NATSServer) throws {
            self.files = try CopyFiles()
            self.options = NATSOptions(servers: [server.url], stream: "Q-\(APNSID.random())")
        }

        var now: QueueTime { self.clock.now }

        func open(capacity: Int?) async throws -> any PushQueue {
            self.capacity.withLock { $0 = capacity }
            return try await self.openQueue("first")
        }

        private func openQueue(_ name: String) async throws -> JournalPushQueue {
            return try await NATSPushQueue.open(
                self.options,
                options: JournalPushQueue.Options(
                    file: self.files.path(name),
                    capacity: self.capacity.withLock { $0 },
                    clock: self.clock,
                    snapshotBytes: 20_000
                ),
                logger: .quiet
            )
        }

        func crash(_ queue: any PushQueue) async throws -> any PushQueue {
            if let queue = queue as? JournalPushQueue { await queue.abandon() }
            return try await self.openQueue("first")
        }

        func join() async throws -> any PushQueue { try await self.openQueue("second") }

        func advance(by duration: Duration) async { self.clock.advance(by: duration) }

        func jump(by duration: Duration) async { self.clock.jump(by: duration) }
    }

    /// A directory for copies of a queue.
    final class CopyFiles: Sendable {
        private let directory: URL

        init() throws {
            self.directory = FileManager.default.temporaryDirectory.appending(path: "copies-\(APNSID.random())")
            try FileManager.default.createDirectory(at: self.directory, withIntermediateDirectories: true)
        }

        deinit { try? FileManager.default.removeItem(at: self.directory) }

        func path(_ name: String) -> String { self.directory.appending(path: "\(name).sqlite").path }
    }

    extension Logger {
        static var quiet: Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }
    }

    extension NATSPushQueue {
        /// Opens a queue with a copy in a new file.
        static func open(
            _ brokers: NATSOptions,
            _ files: CopyFiles,
            timeout: Duration = .seconds(30),
            snapshotBytes: UInt64 = 256 * 1_024 * 1_024
        ) async throws(QueueError) -> JournalPushQueue {
            try await Self.open(
                brokers,
                options: JournalPushQueue.Options(
                    file: files.path("\(APNSID.random())"),
                    timeout: timeout,
                    snapshotBytes: snapshotBytes
                ),
                logger: .quiet
            )
        }
    }
#endif
