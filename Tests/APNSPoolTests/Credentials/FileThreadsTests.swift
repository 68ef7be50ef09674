import Dispatch
import Testing

@testable import APNSPool

struct FileThreadsTests {
    @Test("Looks at files that block keep no task that is cancelled")
    func blockedLooks() async {
        let release = DispatchSemaphore(value: 0)
        let looks = (0..<2).map { _ in
            Task {
                await FileThreads.runUnlessCancelled { () -> Int in
                    release.wait()
                    return 1
                }
            }
        }
        for look in looks { look.cancel() }
        for look in looks { #expect(await ends { _ = await look.value }) }
        for look in looks { #expect(await look.value == nil) }
        for _ in looks { release.signal() }
        #expect(await FileThreads.run { 2 } == 2)
    }
}
