import NIOCore
import TestSupport
import Testing

@testable import APNSTransport

/// The budget of frames and bytes that advance no request.
struct GlitchBudgetTests {
    private let start = NIODeadline.uptimeNanoseconds(1_000_000_000)

    /// Reads `bytes` as one record.
    private func read(_ bytes: [UInt8], _ budget: inout GlitchBudget, _ overhead: TLSOverhead = TLSOverhead()) {
        bytes.withUnsafeBytes { budget.read($0, overhead) }
    }

    /// Reads records of 100 PINGs until the budget is exhausted, and returns the number of PINGs.
    private func flood(_ budget: inout GlitchBudget, at now: NIODeadline, most: Int = 100_000) -> Int {
        let record = (0..<100).flatMap { _ in Frame.ping().bytes }
        for count in stride(from: 100, through: most, by: 100) {
            self.read(record, &budget)
            if budget.isExhausted(now: now) { return count }
        }
        return most
    }

    @Test("A flood ends at the capacity, however long the session was quiet before")
    func capacity() {
        var budget = GlitchBudget(prefixCount: 0)
        _ = budget.isExhausted(now: self.start)
        let later = self.start + .hours(24 * 100)
        _ = budget.isExhausted(now: later)
        let count = self.flood(&budget, at: later)
        // Each record costs one more than its 100 frames.
        #expect(count == 10_000)
    }

    @Test("A peer may send 500 frames and records a second forever, but not 600")
    func rate() {
        // Each record costs one more than its frames.
        for (count, isTooMany) in [(499, false), (599, true)] {
            var budget = GlitchBudget(prefixCount: 0)
            var isExhausted = false
            let record = (0..<count).flatMap { _ in Frame.ping().bytes }
            for second in 0..<600 where !isExhausted {
                self.read(record, &budget)
                isExhausted = budget.isExhausted(now: self.start + .seconds(Int64(second)))
            }
            #expect(isExhausted == isTooMany)
        }
    }

    @Test("Time is not lost if it passes in small steps")
    func smallSteps() {
        var budget = GlitchBudget(prefixCount: 0)
        _ = self.flood(&budget, at: self.start, most: 9_000)
        let before = budget.lowest
        for step in 1...10_000 { _ = budget.isExhausted(now: self.start + .microseconds(100 * Int64(step))) }
        // A second has passed and has earned 500.
        _ = self.flood(&budget, at: self.start + .seconds(1), most: 500)
        #expect(budget.lowest == before - 5)
    }

    @Test("A clock that goes backwards neither earns nor costs anything")
    func backwards() {
        var budget = GlitchBudget(prefixCount: 0)
        _ = budget.isExhausted(now: self.start)
        let count = self.flood(&budget, at: .uptimeNanoseconds(0))
        #expect(count == 10_000)
    }

    @Test("Progress of streams earns more than a response needs, up to the capacity")
    func progress() {
        var budget = GlitchBudget(prefixCount: 0)
        for _ in 0..<10_000 {
            // What a response may consist of: two WINDOW_UPDATEs, 103, HEADERS, DATA, an empty DATA, and a PING.
            for frame in [Frame.ping(), .ping(), .ping(), .ping(), .ping(), .ping(), .ping()] {
                self.read(frame.bytes, &budget)
            }
            budget.streamAdvanced()
            _ = budget.isExhausted(now: self.start)
        }
        #expect(budget.lowest == GlitchBudget.capacity)
        let count = self.flood(&budget, at: self.start)
        #expect(count == 10_000)
    }

    @Test("Bytes of a body cost something unless they are kept")
    func bodies() {
        for isKept in [true, false] {
            var budget = GlitchBudget(prefixCount: 0)
            let frame = Frame(.data, stream: 1, [UInt8](repeating: 0, count: 16384)).bytes
            var count = 0
            while count < 2000, !budget.isExhausted(now: self.start) {
                self.read(frame, &budget)
                if isKept { budget.kept(16384) }
                count += 1
            }
            // A frame of 16 KiB costs 18 with its record.
            #expect(count == (isKept ? 2000 : 10_000 / 18 + 1))
        }
    }

    @Test(
        "A record without data costs 16, and each KiB that TLS adds costs one",
        arguments: [
            (TLSOverhead(bytes: 22, emptyRecords: 0), 2), (TLSOverhead(bytes: 2048, emptyRecords: 0), 4),
            (TLSOverhead(bytes: 500, emptyRecords: 2), 34),
        ]
    )
    func overhead(_ overhead: TLSOverhead, _ cost: Int) {
        var budget = GlitchBudget(prefixCount: 0)
        var count = 0
        while !budget.isExhausted(now: self.start) {
            self.read(Frame.ping().bytes, &budget, overhead)
            count += 1
        }
        #expect(count == GlitchBudget.capacity / cost + 1)
    }

    @Test("A read that completes no record costs one")
    func incompleteRecords() {
        var budget = GlitchBudget(prefixCount: 0)
        var count = 0
        while !budget.isExhausted(now: self.start) {
            budget.readNothing()
            count += 1
        }
        #expect(count == GlitchBudget.capacity + 1)
    }

    @Test("A header block that becomes large costs one glitch for each KiB of its decompressed size")
    func headerBombs() {
        var budget = GlitchBudget(prefixCount: 0)
        var blocks = 0
        while !budget.isExhausted(now: self.start) {
            self.read(Frame.headers(1, status: 103).bytes, &budget)
            budget.decompressed(64 * 1024)
            blocks += 1
        }
        #expect(blocks == 10_000 / 66 + 1)
    }

    @Test("The number of frames does not depend on how bytes are split", arguments: [0, 24])
    func pieces(prefix: Int) {
        let frames: [Frame] = (0..<300).map {
            Frame(.init(rawValue: UInt8($0 % 10)) ?? .ping, [UInt8](repeating: 0xFF, count: $0 * 7 % 50))
        }
        let bytes = [UInt8](repeating: 0, count: prefix) + frames.flatMap(\.bytes)
        var whole = GlitchBudget(prefixCount: prefix)
        self.read(bytes, &whole)
        _ = whole.isExhausted(now: self.start)
        #expect(whole.lowest == GlitchBudget.capacity - 301)
        var random = SeededRandom(seed: 3)
        for round in 0..<100 {
            var budget = GlitchBudget(prefixCount: prefix)
            var rest = bytes[...]
            var records = 0
            while !rest.isEmpty {
                let piece = rest.prefix(round == 0 ? 1 : Int.random(in: 1...40, using: &random))
                self.read(Array(piece), &budget)
                rest = rest.dropFirst(piece.count)
                records += 1
            }
            _ = budget.isExhausted(now: self.start)
            #expect(budget.lowest == GlitchBudget.capacity - 300 - records)
        }
    }
}
