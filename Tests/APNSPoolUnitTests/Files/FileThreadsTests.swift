import Dispatch
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct FileThreadsTests {
    @Test("A file access that blocks does not hold up a cancelled task")
    func blockedFileAccess() async {
        let release = DispatchSemaphore(value: 0)
        let accesses = (0..<2).map { _ in
            Task {
                await FileThreads.runUnlessCancelled { () -> Int in
                    release.wait()
                    return 1
                }
            }
        }
        for access in accesses { access.cancel() }
        for access in accesses { #expect(await ends { _ = await access.value }) }
        for access in accesses { #expect(await access.value == nil) }
        for _ in accesses { release.signal() }
        #expect(await FileThreads.run { 2 } == 2)
    }
}
