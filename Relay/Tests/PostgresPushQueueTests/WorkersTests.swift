import Dispatch
import PushQueue
import PushQueueConformance
import Synchronization
import Testing

@testable import PostgresPushQueue

@Suite("The threads in front of libpq") struct WorkersTests {
    /// What the closure of a job holds.
    private final class Load: Sendable {}

    private static func workers() throws -> Workers {
        // Nothing listens there, so no connection can be opened.
        Workers(try ConnectionSettings("host=127.0.0.1 port=9 dbname=none"), count: 1, label: "test") { _ in }
    }

    @Test("A job is released as soon as it has run, while others wait") func released() async throws {
        let workers = try Self.workers()
        weak var load: Load?
        let (begun, mayEnd) = (AsyncStream.makeStream(of: Void.self), DispatchSemaphore(value: 0))
        do {
            let new = Load()
            load = new
            workers.add { _ in withExtendedLifetime(new) {} }
        }
        workers.add { _ in
            begun.continuation.yield()
            mayEnd.wait()
        }
        workers.add { _ in }
        _ = await begun.stream.first { _ in true }
        #expect(load == nil)
        mayEnd.signal()
        await workers.close()
    }

    @Test("A call whose time is over opens no connection") func late() async throws {
        let settings = try ConnectionSettings("host=127.0.0.1 port=9 dbname=none")
        let prepared = Atomic(0)
        let worker = Worker(
            settings,
            prepare: { _ in prepared.wrappingAdd(1, ordering: .relaxed) },
            isAbandoned: { false }
        )
        let error = #expect(throws: QueueError.self) {
            _ = try worker.run("SELECT 1", Parameters(), .harmless, until: .now.advanced(by: .seconds(-1)))
        }
        #expect(error?.code == .unavailable && error?.message.contains("no connection was free in time") == true)
        #expect(prepared.load(ordering: .relaxed) == 0)
    }
}
