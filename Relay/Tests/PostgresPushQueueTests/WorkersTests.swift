import Dispatch
import Glibc
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

    /// A port whose connections are accepted, and get no response.
    private struct SilentServer {
        let port: Int
        private let listener: Int32

        init() throws {
            self.listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let listener = self.listener
            let isBound = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                    bind(listener, pointer, length) == 0 && listen(listener, 128) == 0
                        && getsockname(listener, pointer, &length) == 0
                }
            }
            try #require(isBound)
            self.port = Int(UInt16(bigEndian: address.sin_port))
        }

        /// Ends the server.
        ///
        /// - Returns: how many connections it got.
        func close() -> Int {
            var count = 0
            while true {
                let connection = accept(self.listener, nil, nil)
                guard connection >= 0 else { break }
                count += 1
                Glibc.close(connection)
            }
            Glibc.close(self.listener)
            return count
        }
    }

    @Test(
        "While a server does not respond, each thread tries one connection, and the other calls only wait for their time"
    )
    func silentServer() async throws {
        let (server, threads, calls) = (try SilentServer(), 5, 100)
        let settings = try ConnectionSettings("host=127.0.0.1 port=\(server.port) dbname=none connect_timeout=2")
        let workers = Workers(settings, count: threads, label: "test") { _ in }
        let errors = Mutex<[QueueError]>([])
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            // Less than the time that opening a connection takes, so that no thread tries a second time.
            let deadline = ContinuousClock.now.advanced(by: .seconds(1))
            for _ in 0..<calls {
                workers.add { worker in
                    do throws(QueueError) {
                        _ = try worker.run("SELECT 1", Parameters(), .harmless, until: deadline)
                    } catch {
                        let isLast = errors.withLock { errors in
                            errors.append(error)
                            return errors.count == calls
                        }
                        if isLast { continuation.resume() }
                    }
                }
            }
        }
        await workers.close()
        #expect(errors.withLock { $0.allSatisfy { $0.code == .unavailable } })
        #expect(server.close() <= threads)
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
