import APNSModel
import Foundation
import JournalPushQueue
import Logging
import PushQueue
import PushQueueConformance
import Synchronization

/// Opens queues on a journal in memory, each with a copy in a file of its own directory.
final class JournalFixture: QueueFixture {
    let lacks: Set<QueueAbility> = [.implausibleJump]
    let tick = Duration.seconds(1)
    let clock = ManualQueueClock(QueueTime(secondsSince1970: 1_800_000_000))
    let journal: MemoryJournal
    let directory: URL
    private let state = Mutex((life: 0, capacity: Int?.none))
    private let keepsFiles: Bool

    /// - Parameters:
    ///   - journal: the journal.
    ///   - keepsFiles: whether a process that follows another one finds its file; otherwise it begins with a snapshot.
    init(
        _ journal: MemoryJournal = MemoryJournal(maximumRecord: 2_000, storesCopies: true),
        keepsFiles: Bool = true
    ) throws {
        self.journal = journal
        self.keepsFiles = keepsFiles
        self.directory = FileManager.default.temporaryDirectory.appending(path: "journal-\(APNSID.random())")
        try FileManager.default.createDirectory(at: self.directory, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: self.directory) }

    var now: QueueTime { self.clock.now }

    /// The file of the first process.
    var file: String { self.file("first-\(self.keepsFiles ? 0 : self.state.withLock { $0.life })") }

    func file(_ name: String) -> String { self.directory.appending(path: "\(name).sqlite").path }

    func options(_ file: String) -> JournalPushQueue.Options {
        JournalPushQueue.Options(
            file: file,
            capacity: self.state.withLock { $0.capacity },
            clock: self.clock,
            snapshotBytes: 5_000
        )
    }

    func open(capacity: Int?) async throws -> any PushQueue {
        self.state.withLock { state in
            state.capacity = capacity
            state.life += 1
        }
        return try await self.openQueue(self.options(self.file))
    }

    func openQueue(_ options: JournalPushQueue.Options) async throws -> JournalPushQueue {
        try await JournalPushQueue.open(self.journal.reader(), options: options, logger: .quiet)
    }

    func crash(_ queue: any PushQueue) async throws -> any PushQueue {
        if let queue = queue as? JournalPushQueue { await queue.abandon() }
        self.state.withLock { $0.life += 1 }
        return try await self.openQueue(self.options(self.file))
    }

    func join() async throws -> any PushQueue { try await self.openQueue(self.options(self.file("second"))) }

    func advance(by duration: Duration) async { self.clock.advance(by: duration) }

    func jump(by duration: Duration) async { self.clock.jump(by: duration) }
}

extension Logger {
    static var quiet: Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }
}
