import Testing

@testable import APNSCommand

/// The text of the progress, without a terminal.
struct ProgressTests {
    private static let half = ProgressText(
        done: 45_012,
        total: 100_000,
        rate: 3204,
        inFlight: 1000,
        failures: [("rejected", 12), ("unknown", 0)]
    )

    @Test func aWideLineShowsEveryNumber() {
        let line = Self.half.line(width: 120, hasColor: false)
        #expect(
            line == "45 %  [============>                 ]"
                + "  45012/100000  3204/s  0:18 left  1000 in flight  12 rejected"
        )
        let plain = Self.half.plain
        #expect(plain == "45012 of 100000, 3204/s, 1000 in flight, 12 rejected, 0:18 left")
    }

    @Test func aLineIsNeverWiderThanTheTerminal() {
        for width in 0...130 {
            let line = Self.half.line(width: width, hasColor: false)
            #expect(line.count <= width, "\(width): \(line)")
            let colored = Self.half.line(width: width, hasColor: true)
            #expect(colored.replacing(#/\u{1B}\[[0-9;]*m/#, with: "") == line)
        }
        #expect(Self.half.line(width: 10, hasColor: false) == "45 %")
    }

    @Test func unknownNumbersAreLeftOut() {
        let text = ProgressText(done: 7)
        #expect(text.line(width: 80, hasColor: true) == "7")
        #expect(text.plain == "7")
        #expect(ProgressText(done: 0, total: 0).line(width: 80, hasColor: false).hasPrefix("100 %"))
        #expect(ProgressText(done: 12, total: 10).line(width: 40, hasColor: false).hasPrefix("100 %"))
        #expect(ProgressText(done: 1, total: 10, rate: 0).plain == "1 of 10, 0/s")
    }

    @Test func timesAreFormatted() {
        #expect(ProgressText.time(0) == "0:00")
        #expect(ProgressText.time(65) == "1:05")
        #expect(ProgressText.time(3725) == "1:02:05")
    }

    @Test func theRateIsThatOfTheLastSeconds() {
        var meter = Speedometer()
        meter.add(time: 0, count: 0)
        #expect(meter.rate(time: 0.4, count: 100) == nil)
        for step in 1...40 { meter.add(time: Double(step) / 2, count: step * 50) }
        #expect(meter.rate(time: 20, count: 2000) == 100)
        // A stall lowers the rate.
        for step in 41...60 { meter.add(time: Double(step) / 2, count: 2000) }
        #expect((meter.rate(time: 30, count: 2000) ?? 100) < 10)
    }
}
