import APNSModel
import PushQueue
import Testing

@testable import APNSRelay

struct PushIDGeneratorTests {
    @Test("Ids carry version, variant and time")
    func layout() {
        let id = PushIDGenerator().next(at: QueueTime(millisecondsSince1970: 0x0190_A5C4_1D8A))
        #expect(id.high >> 16 == 0x0190_A5C4_1D8A)
        #expect(id.high >> 12 & 0xF == 7)
        #expect(id.low >> 62 == 0b10)
    }

    @Test("Ids increase within a millisecond, over milliseconds, and after the clock was set back")
    func order() {
        let ids = PushIDGenerator()
        var last = ids.next(at: QueueTime(millisecondsSince1970: 1_000))
        for step in 0..<20_000 {
            let next = ids.next(at: QueueTime(millisecondsSince1970: Int64(1_000 + (step / 100 % 7) * (step % 3 - 1))))
            #expect(next.description > last.description)
            last = next
        }
    }

    @Test("Times outside 48 bits do not trap", arguments: [Int64.min, -1, Int64.max])
    func extremes(_ milliseconds: Int64) {
        let ids = PushIDGenerator()
        let first = ids.next(at: QueueTime(millisecondsSince1970: milliseconds))
        #expect(ids.next(at: QueueTime(millisecondsSince1970: milliseconds)) != first)
    }
}
