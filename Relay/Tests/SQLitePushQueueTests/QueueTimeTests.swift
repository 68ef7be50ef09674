import PushQueue
import Testing

struct QueueTimeTests {
    @Test("Times are clamped, whatever is added to them")
    func clamped() {
        let zero = QueueTime(millisecondsSince1970: 0)
        let most = Duration.milliseconds(Int64.max)
        #expect(zero.advanced(by: most).millisecondsSince1970 == .max)
        #expect(zero.advanced(by: .zero - .milliseconds(Int64.min)).millisecondsSince1970 == .max)
        #expect(zero.advanced(by: .milliseconds(Int64.min)).millisecondsSince1970 == .min)
        #expect(QueueTime(millisecondsSince1970: 5).advanced(by: most).millisecondsSince1970 == .max)
        #expect(QueueTime(millisecondsSince1970: -5).advanced(by: .zero - most).millisecondsSince1970 == .min)
        #expect(zero.advanced(by: .milliseconds(-1_500)).millisecondsSince1970 == -1_500)
    }
}
