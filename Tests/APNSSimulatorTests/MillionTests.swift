import APNSModel
import Foundation
import Testing

@testable import APNSSimulator

/// The memory of a record with a million pushes.
struct MillionTests {
    private func residentMiB() -> Int {
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") } ?? ""
        return (Int(line.filter(\.isNumber)) ?? 0) / 1024
    }

    @Test func aMillionIDsNeedLessThan200MiB() {
        let before = self.residentMiB()
        var ledger = Ledger()
        for number in 0..<1_000_000 as Range<UInt64> {
            ledger.count(processed: APNSID(high: number &* 0x9E37_79B9_7F4A_7C15, low: number))
            ledger.count(.responded, status: 200, isProcessed: true, isRefusal: false)
        }
        ledger.count(processed: APNSID(high: 0, low: 0))
        #expect(ledger.requestsProcessed == 1_000_000 && ledger.processedCounts.count == 1_000_000)
        #expect(ledger.duplicates == [APNSID(high: 0, low: 0)])
        let grown = self.residentMiB() - before
        print("a million ids: \(grown) MiB")
        #expect(grown < 200)
    }
}
