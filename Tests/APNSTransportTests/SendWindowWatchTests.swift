import NIOCore
import Testing

@testable import APNSTransport

struct SendWindowWatchTests {
    private func at(_ milliseconds: Int64) -> NIODeadline { .uptimeNanoseconds(0) + .milliseconds(milliseconds) }

    @Test("An interval ends once, after half a second, and says whether the window has grown")
    func intervals() {
        var watch = SendWindowWatch()
        #expect(watch.deadline == nil && watch.end(self.at(0), updates: 0) == nil)
        #expect(watch.begin(self.at(100), updates: 3) == self.at(600))
        #expect(watch.end(self.at(599), updates: 4) == nil && watch.deadline == self.at(600))
        #expect(watch.end(self.at(600), updates: 4) == true)
        #expect(watch.deadline == nil && watch.end(self.at(2000), updates: 4) == nil)
        // A late timer.
        _ = watch.begin(self.at(2000), updates: 4)
        #expect(watch.end(self.at(9000), updates: 4) == false)
    }
}
