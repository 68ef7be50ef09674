import JournalPushQueue
import Testing

@Suite struct ReaderWatchTests {
    private let start = ContinuousClock.now
    private var watch: ReaderWatch

    init() {
        self.watch = ReaderWatch(at: self.start)
        _ = self.watch.shouldRead(at: self.start)
    }

    /// When readers start, in tenths of a second, if every tenth brings a need for one.
    private mutating func starts(until end: Int) -> [Int] {
        var starts: [Int] = []
        for tenth in 0..<end {
            self.watch.need()
            if self.watch.shouldRead(at: self.start.advanced(by: .milliseconds(100 * tenth))) { starts.append(tenth) }
        }
        return starts
    }

    @Test("Readers that achieve nothing are replaced more and more rarely, at least every 8 s")
    mutating func backoff() {
        #expect(self.starts(until: 320) == [5, 15, 35, 75, 155, 235, 315])
    }

    @Test("Progress, and a new connection, make the wait short again")
    mutating func reset() {
        let last = self.starts(until: 100).last
        #expect(last == 75)
        self.watch.advanced(at: self.start)
        let soon = self.starts(until: 40)
        #expect(soon == [5, 10, 20])
        self.watch.restart(at: self.start)
        #expect(self.starts(until: 20) == [0, 5, 15])
    }

    @Test("A stuck call needs a new reader only if the present one was quiet for two seconds")
    mutating func quiet() {
        let later = self.start.advanced(by: .seconds(10))
        self.watch.handledEvents(at: later)
        self.watch.needIfQuiet(at: later.advanced(by: .seconds(1)))
        let busy = self.watch.shouldRead(at: later.advanced(by: .seconds(1)))
        #expect(!busy)
        self.watch.needIfQuiet(at: later.advanced(by: .seconds(3)))
        let quiet = self.watch.shouldRead(at: later.advanced(by: .seconds(3)))
        #expect(quiet)
        let again = self.watch.shouldRead(at: later.advanced(by: .seconds(60)))
        #expect(!again)
    }
}
