import Dispatch
import Foundation
import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct LatchTests {
    @Test func anOpenLatchEndsEveryWait() async {
        let latch = Latch()
        #expect(!latch.isOpen)
        latch.open()
        latch.open()
        #expect(await latch.wait())
        #expect(await latch.wait(until: MonotonicInstant(nanoseconds: 0), clock: ManualClock()))
    }

    @Test func openingResumesEachWaiterOnce() async {
        let latch = Latch()
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<200 { group.addTask { await latch.wait() } }
            latch.open()
            for await isOpen in group { #expect(isOpen) }
        }
    }

    @Test func aCancelledWaitEndsWhileTheLatchIsClosed() async {
        let latch = Latch()
        let waiter = Task { await latch.wait() }
        try? await ContinuousClock().sleep(for: .milliseconds(1))
        waiter.cancel()
        #expect(await waiter.value == false)
        let late = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await latch.wait()
        }
        #expect(await late.value == false)
    }

    @Test func aWaitEndsAtItsDeadline() async {
        let latch = Latch()
        let clock = ManualClock()
        let deadline = clock.now.advanced(by: .seconds(5))
        let waiter = Task { await latch.wait(until: deadline, clock: clock) }
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(5))
        #expect(await waiter.value == false)
        #expect(clock.sleepers == 0)
    }

    @Test func openingEndsAWaitBeforeItsDeadline() async {
        let latch = Latch()
        let clock = ManualClock()
        let waiter = Task { await latch.wait(until: .distantFuture, clock: clock) }
        await clock.waitForSleepers(1)
        latch.open()
        #expect(await waiter.value)
        #expect(clock.sleepers == 0)
    }

    /// Waits, cancellations and the opening in any order: every wait ends.
    @Test(arguments: 0..<20)
    func everyWaitEnds(_ seed: UInt64) async {
        var random = SeededRandom(seed: seed)
        let latch = Latch()
        var waiters: [Task<Bool, Never>] = []
        let opening = Int.random(in: 0..<100, using: &random)
        for step in 0..<100 {
            waiters.append(Task { await latch.wait() })
            if Bool.random(using: &random) { await Task.yield() }
            if Int.random(in: 0..<3, using: &random) == 0 { waiters.randomElement(using: &random)?.cancel() }
            if step == opening { latch.open() }
        }
        for waiter in waiters { _ = await waiter.value }
    }
}

struct ClientLifecycleTests {
    @Test func aClientRunsOnlyOnce() {
        let lifecycle = ClientLifecycle()
        #expect(lifecycle.current == .notStarted && lifecycle.enter())
        #expect(lifecycle.beginRun())
        #expect(!lifecycle.beginRun())
        #expect(lifecycle.current == .running && lifecycle.running.isOpen)
        #expect(lifecycle.pushesInFlight == 1)
    }

    @Test func aDrainRefusesNewWorkAndWaitsForTheLast() {
        let lifecycle = ClientLifecycle()
        _ = lifecycle.beginRun()
        #expect(lifecycle.enter() && lifecycle.enter(.bulk))
        lifecycle.beginDrain(within: .seconds(3))
        lifecycle.beginDrain(within: .seconds(9))
        #expect(lifecycle.drainTime == .seconds(3))
        #expect(lifecycle.current == .draining && lifecycle.drainRequested.isOpen)
        #expect(!lifecycle.enter() && !lifecycle.enter(.bulk))
        #expect(lifecycle.pushesInFlight == 2 && !lifecycle.idle.isOpen)
        lifecycle.leave()
        #expect(!lifecycle.idle.isOpen)
        lifecycle.leave(.bulk)
        #expect(lifecycle.idle.isOpen && lifecycle.pushesInFlight == 0)
    }

    @Test func aDrainOfAnIdleClientIsDoneAtOnce() {
        let lifecycle = ClientLifecycle()
        _ = lifecycle.beginRun()
        lifecycle.beginDrain(within: .zero)
        #expect(lifecycle.idle.isOpen && !lifecycle.ended.isOpen)
    }

    @Test func theEndWaitsForPushesAndNotForBulkCalls() {
        let lifecycle = ClientLifecycle()
        _ = lifecycle.beginRun()
        #expect(lifecycle.enter() && lifecycle.enter(.bulk))
        lifecycle.end()
        #expect(lifecycle.ended.isOpen && !lifecycle.quiet.isOpen && !lifecycle.stopped.isOpen)
        #expect(!lifecycle.enter())
        lifecycle.leave()
        #expect(lifecycle.quiet.isOpen && !lifecycle.idle.isOpen)
        lifecycle.leave(.bulk)
        #expect(lifecycle.idle.isOpen)
        lifecycle.finish()
        #expect(lifecycle.stopped.isOpen)
    }

    @Test func aDrainBeforeTheRunStopsTheClient() {
        let lifecycle = ClientLifecycle()
        lifecycle.beginDrain(within: .zero)
        #expect(lifecycle.current == .stopped && lifecycle.stopped.isOpen && lifecycle.running.isOpen)
        #expect(!lifecycle.beginRun())
    }

    @Test("A push that enters while the last one leaves keeps the drain open")
    func aPushBetweenTheStepsOfLeave() {
        for (work, ends) in [(ClientLifecycle.Work.push, false), (.bulk, false), (.push, true)] {
            let lifecycle = ClientLifecycle()
            _ = lifecycle.beginRun()
            #expect(lifecycle.enter(work))
            let left = lifecycle.countOut(work)
            #expect(lifecycle.enter())
            if ends { lifecycle.end() } else { lifecycle.beginDrain(within: .zero) }
            lifecycle.afterLeaving(left)
            #expect(!lifecycle.idle.isOpen && !lifecycle.quiet.isOpen)
            lifecycle.leave()
            #expect(lifecycle.idle.isOpen && lifecycle.quiet.isOpen == ends)
        }
    }

    /// Work enters and leaves on several threads while the client drains. `idle` opens, but only after all have left.
    @Test(arguments: 0..<30)
    func idleOpensOnlyAfterAllWorkHasLeft(_ seed: UInt64) async {
        let lifecycle = ClientLifecycle()
        _ = lifecycle.beginRun()
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<4 as Range<UInt64> {
                group.addTask { @concurrent in
                    var random = SeededRandom(seed: seed * 100 + worker)
                    for _ in 0..<200 {
                        let work: ClientLifecycle.Work = Bool.random(using: &random) ? .push : .bulk
                        guard lifecycle.enter(work) else { continue }
                        if Int.random(in: 0..<10, using: &random) == 0 { await Task.yield() }
                        #expect(!lifecycle.idle.isOpen, "seed \(seed)")
                        lifecycle.leave(work)
                    }
                }
            }
            group.addTask { @concurrent in
                for _ in 0..<(seed % 7) { await Task.yield() }
                lifecycle.beginDrain(within: .zero)
            }
        }
        #expect(lifecycle.idle.isOpen && lifecycle.pushesInFlight == 0, "seed \(seed)")
    }
}
