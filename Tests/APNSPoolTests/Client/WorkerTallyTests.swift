import Synchronization
import Testing

@testable import APNSPool

/// How many of a client's workers may have a connection.
struct WorkerTallyTests {
    @Test("A surplus worker counts until it has ended")
    func surplus() {
        let tally = WorkerTally(limit: 3)
        let workers = (0..<3).map { tally.began($0) }
        #expect(tally.count == .init(limit: 3, surplus: 0))
        tally.setLimit(1)
        #expect(tally.count == .init(limit: 1, surplus: 2))
        tally.ended(workers[1])
        #expect(tally.count == .init(limit: 1, surplus: 1))
        // Within a larger limit, the last worker is not surplus any more.
        tally.setLimit(3)
        #expect(tally.count == .init(limit: 3, surplus: 0))
        tally.setLimit(2)
        #expect(tally.count == .init(limit: 2, surplus: 1))
        tally.ended(workers[2])
        #expect(tally.count == .init(limit: 2, surplus: 0))
    }

    @Test("A worker that begins beyond the limit counts only once the limit has included it")
    func beganTooLate() {
        let tally = WorkerTally(limit: 1)
        let worker = tally.began(1)
        #expect(tally.count == .init(limit: 1, surplus: 0))
        tally.setLimit(2)
        tally.setLimit(1)
        #expect(tally.count == .init(limit: 1, surplus: 1))
        tally.ended(worker)
        tally.ended(worker)
        #expect(tally.count == .init(limit: 1, surplus: 0))
    }

    @Test("Workers of two credential sessions have the same indices and count separately")
    func twoSessions() {
        let tally = WorkerTally(limit: 2)
        let workers = [tally.began(1), tally.began(1)]
        tally.setLimit(1)
        #expect(tally.count.surplus == 2)
        tally.ended(workers[0])
        #expect(tally.count.surplus == 1)
    }

    @Test("Each limit and each end of a surplus worker is announced")
    func announcements() {
        let count = Mutex(0)
        let tally = WorkerTally(limit: 2) { count.withLock { $0 += 1 } }
        let workers = (0..<2).map { tally.began($0) }
        #expect(count.withLock { $0 } == 0)
        tally.setLimit(1)
        #expect(count.withLock { $0 } == 1)
        tally.ended(workers[0])
        #expect(count.withLock { $0 } == 1)
        tally.ended(workers[1])
        #expect(count.withLock { $0 } == 2)
    }
}
