import PushQueueConformance
import Testing

@testable import PostgresPushQueue

@Suite("The times of transaction ids") struct TransactionTimesTests {
    private let start = ContinuousClock.now

    private func time(_ seconds: Int) -> ContinuousClock.Instant { self.start.advanced(by: .seconds(seconds)) }

    @Test("An id is as old as the last reading at which it was not given") func age() {
        var times = TransactionTimes()
        times.read(next: 10, oldest: 10, at: self.time(0))
        times.read(next: 10, oldest: 10, at: self.time(15))
        times.read(next: 20, oldest: 10, at: self.time(30))
        times.read(next: 30, oldest: 10, at: self.time(45))
        #expect(times.age(of: 10, at: self.time(60)) == .seconds(45))
        #expect(times.age(of: 19, at: self.time(60)) == .seconds(45))
        #expect(times.age(of: 20, at: self.time(60)) == .seconds(30))
        #expect(times.age(of: 30, at: self.time(60)) == .seconds(15))
        #expect(times.age(of: 9, at: self.time(60)) == nil)
        #expect(times.span(at: self.time(60)) == .seconds(60))
    }

    @Test("The ids of a database that was restored begin again") func restore() {
        var times = TransactionTimes()
        times.read(next: 100, oldest: 50, at: self.time(0))
        times.read(next: 60, oldest: 50, at: self.time(15))
        #expect(times.age(of: 55, at: self.time(30)) == nil)
        #expect(times.span(at: self.time(30)) == .seconds(15))
        #expect(times.age(of: 60, at: self.time(30)) == .seconds(15))
    }

    @Test("Few readings are kept, and an age is never too short") func limit() {
        var random = SeededRandom(seed: 1)
        var times = TransactionTimes(limit: 20)
        var all: [(next: Int64, second: Int)] = []
        var next: Int64 = 1_000
        var oldest: Int64 = 1_000
        for second in stride(from: 0, to: 30_000, by: 15) {
            next += Int64.random(in: 0...3, using: &random)
            if Int.random(in: 0..<100, using: &random) == 0 { oldest = Int64.random(in: oldest...next, using: &random) }
            times.read(next: next, oldest: oldest, at: self.time(second))
            all.append((next, second))
            let id = Int64.random(in: oldest...next, using: &random)
            // Nil before the first reading that a held id can be compared with.
            guard let exact = all.last(where: { $0.next <= id }) else { continue }
            let age = times.age(of: id, at: self.time(second))
            #expect(age.map { $0 >= .seconds(second - exact.second) } == true)
        }
    }
}
