import TestSupport
import Testing

@testable import SupervisedPool

/// The shell: real tasks and a manual clock.
struct SupervisorTests {
    private let journal = Journal<String>()
    private let clock = ManualClock()

    /// A child that logs its events and ends on a shutdown request or a cancellation.
    private func child(
        _ name: String,
        shutdown: ChildSpec.Shutdown = .within(.seconds(5)),
        obeys: Bool = true,
        failsWhen: Journal<String>? = nil
    ) -> ChildSpec {
        ChildSpec(id: ChildSpec.ID(name), shutdown: shutdown) { [journal] context in
            let (stream, end) = AsyncStream<Bool>.makeStream()
            context.onShutdown {
                journal.write("asked \(name)")
                if obeys { end.yield(false) }
            }
            let failing = failsWhen.map { failures in
                Task {
                    await failures.wait(count: context.generation)
                    end.yield(true)
                }
            }
            // Otherwise the last child's task would wait for ever.
            defer { failing?.cancel() }
            journal.write("start \(name)\(context.generation)")
            context.started()
            var mustFail = false
            for await fails in stream {
                mustFail = fails
                break
            }
            journal.write(Task.isCancelled ? "cancelled \(name)" : "end \(name)")
            if mustFail { throw Broken() }
        }
    }

    private func supervisor(
        _ strategy: SupervisionStrategy,
        _ children: [ChildSpec],
        events: Journal<String>? = nil
    ) -> Supervisor {
        Supervisor(name: "test", strategy: strategy, children: children, clock: clock) { event in
            if case .childDeaf(let id, _) = event { events?.write("deaf \(id)") }
        }
    }

    @Test func childrenStartInOrderAndStopInReverse() async throws {
        let supervisor = supervisor(.oneForOne, [child("a"), child("b"), child("c")])
        let run = Task { try await supervisor.run() }
        await journal.wait(count: 3)
        supervisor.shutdown()
        try await run.value
        #expect(
            journal.entries == [
                "start a1", "start b1", "start c1", "asked c", "end c", "asked b", "end b", "asked a", "end a",
            ]
        )
        await #expect(throws: SupervisorError.self) { try await supervisor.run() }
    }

    @Test func cancellingRunStopsChildrenInReverseOrder() async {
        let supervisor = supervisor(.oneForOne, [child("a"), child("b"), child("c")])
        let run = Task { try await supervisor.run() }
        await journal.wait(count: 3)
        run.cancel()
        await #expect(throws: CancellationError.self) { try await run.value }
        #expect(journal.entries.suffix(3) == ["cancelled c", "cancelled b", "cancelled a"])
    }

    @Test func restForOneRestartsTheFailedChildAndLaterOnes() async throws {
        let failures = Journal<String>()
        let supervisor = supervisor(.restForOne, [child("a"), child("b", failsWhen: failures), child("c")])
        let run = Task { try await supervisor.run() }
        await journal.wait(count: 3)
        failures.write("now")
        await journal.wait { $0.contains("start c2") }
        supervisor.shutdown()
        try await run.value
        #expect(journal.entries[3...7] == ["end b", "asked c", "end c", "start b2", "start c2"])
    }

    @Test func tooManyFailuresEndRunWithAnErrorThatListsThem() async throws {
        let failures = Journal<String>()
        let supervisor = supervisor(.oneForOne, [child("a"), child("b", failsWhen: failures)])
        for _ in 0..<10 { failures.write("always") }
        do {
            try await supervisor.run()
            Issue.record("the supervisor did not throw")
        } catch let error as SupervisorError {
            #expect(error.code == .intensityExceeded)
            #expect(error.failures.count == 4)
        }
        #expect(journal.entries.last == "end a")
    }

    @Test func aChildThatIgnoresShutdownIsCancelledAtItsDeadline() async throws {
        let supervisor = supervisor(.oneForOne, [child("a", shutdown: .within(.seconds(3)), obeys: false)])
        let run = Task { try await supervisor.run() }
        await journal.wait(count: 1)
        supervisor.shutdown()
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(3))
        try await run.value
        #expect(journal.entries == ["start a1", "asked a", "cancelled a"])
    }

    @Test func aDeafChildIsReportedAndAwaited() async throws {
        let events = Journal<String>()
        let release = Journal<String>()
        let deaf = ChildSpec(id: "deaf", shutdown: .brutalKill) { [journal] context in
            context.started()
            journal.write("started")
            // An unstructured task does not receive the cancellation.
            await Task { await release.wait(count: 1) }.value
        }
        let supervisor = supervisor(.oneForOne, [deaf], events: events)
        let run = Task { try await supervisor.run() }
        await journal.wait(count: 1)
        supervisor.shutdown()
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(5))
        await events.wait { $0 == ["deaf deaf"] }
        #expect(await supervisor.whichChildren().map(\.isDeaf) == [true])
        release.write("go")
        try await run.value
    }

    @Test func aNestedSupervisorStartsAndStopsInOrder() async throws {
        let inner = [child("b"), child("c")]
        let nested = ChildSpec(id: "nested", shutdown: .infinity) { [clock] context in
            try await Supervisor(name: "inner", strategy: .oneForAll, children: inner, clock: clock).run(context)
        }
        let supervisor = supervisor(.oneForOne, [child("a"), nested, child("d")])
        let run = Task { try await supervisor.run() }
        await journal.wait(count: 4)
        #expect(journal.entries == ["start a1", "start b1", "start c1", "start d1"])
        supervisor.shutdown()
        try await run.value
        #expect(journal.entries.filter { $0.hasPrefix("end") } == ["end d", "end c", "end b", "end a"])
    }

    @Test func dynamicChildrenAreAddedAndRemoved() async throws {
        let supervisor = supervisor(.oneForOne, [])
        await #expect(throws: SupervisorError.self) { try await supervisor.startChild(child("x")) }
        let ready = Journal<String>()
        let context = ChildContext(id: "root") { ready.write("started") }
        let run = Task { try await supervisor.run(context) }
        await ready.wait(count: 1)
        try await supervisor.startChild(child("x"))
        #expect(await supervisor.countChildren() == ChildCounts(specified: 1, active: 1, supervisors: 0, workers: 1))
        do {
            try await supervisor.startChild(child("x"))
            Issue.record("the child was started twice")
        } catch {
            #expect(error.code == .childExists)
        }
        try await supervisor.terminateChild("x")
        try await supervisor.restartChild("x")
        try await supervisor.terminateChild("x")
        try await supervisor.deleteChild("x")
        #expect(await supervisor.whichChildren().isEmpty)
        context.requestShutdown()
        try await run.value
        #expect(journal.entries.filter { $0.hasPrefix("start") } == ["start x1", "start x2"])
    }

    @Test func aCancelledCallerDoesNotWaitForAStart() async throws {
        let supervisor = supervisor(.oneForOne, [child("a")])
        let run = Task { try await supervisor.run() }
        await journal.wait(count: 1)
        let silent = ChildSpec(id: "silent") { [journal] _ in
            journal.write("silent")
            try await SystemMonotonicClock().sleep(until: .distantFuture)
        }
        let start = Task { try await supervisor.startChild(silent) }
        await journal.wait(count: 2)
        start.cancel()
        await #expect(throws: SupervisorError.self) { try await start.value }
        run.cancel()
        await #expect(throws: CancellationError.self) { try await run.value }
    }

    @Test func theContextCallsEachHandlerOnce() {
        let context = ChildContext(id: "x") { [journal] in journal.write("started") }
        context.started()
        context.started()
        context.onShutdown { [journal] in journal.write("asked") }
        #expect(!context.isShuttingDown)
        context.requestShutdown()
        context.requestShutdown()
        context.onShutdown { [journal] in journal.write("late") }
        #expect(journal.entries == ["started", "asked", "late"] && context.isShuttingDown)
        let ref = ChildRef<Int>()
        ref.set(3)
        #expect(ref.current == 3)
        ref.clear()
        #expect(ref.current == nil)
    }

    @Test func eventsDescribeTheRun() async throws {
        let failures = Journal<String>()
        let texts = Journal<String>()
        let supervisor = Supervisor(
            name: "test",
            strategy: .oneForOne,
            children: [child("a", failsWhen: failures)],
            clock: clock
        ) { event in
            switch event {
            case .childStarted(let id, let generation): texts.write("started \(id)\(generation)")
            case .childFailed(let failure): texts.write("failed \(failure.id)\(failure.generation)")
            case .restarting(let id): texts.write("restarting \(id)")
            case .childStopped(let id, let generation, _): texts.write("stopped \(id)\(generation)")
            default: texts.write("\(event)")
            }
        }
        let run = Task { try await supervisor.run() }
        await journal.wait { $0.contains("start a1") }
        failures.write("now")
        await texts.wait { $0.contains("started a2") }
        supervisor.shutdown()
        try await run.value
        #expect(texts.entries == ["started a1", "failed a1", "restarting a", "started a2", "stopped a2"])
    }

    @Test func escalatedErrorsCarryTheFailuresOfInnerSupervisors() async throws {
        let clock = clock
        let inner = ChildSpec.supervisor(id: "inner") {
            Supervisor(
                name: "inner",
                strategy: .oneForOne,
                intensity: RestartIntensity(restarts: 1),
                children: [
                    ChildSpec(id: "leaf") { context in
                        context.started()
                        throw Broken()
                    }
                ],
                clock: clock
            )
        }
        let outer = Supervisor(
            name: "outer",
            strategy: .oneForOne,
            intensity: RestartIntensity(restarts: 1),
            children: [inner],
            clock: clock
        )
        do {
            try await outer.run()
            Issue.record("the failure does not escalate")
        } catch let error as SupervisorError {
            #expect(error.code == .intensityExceeded && error.supervisor == "outer")
            #expect(error.failures.map(\.generation) == [1, 2])
            let innerError = try #require(error.failures.last?.error as? SupervisorError)
            #expect(innerError.failures.count == 2)
            #expect(innerError.failures.allSatisfy { $0.id == "leaf" && $0.error is Broken })
            #expect(error.description.contains("leaf (start 2): Broken()"))
            #expect(error.chain.map(\.id) == ["inner", "leaf"])
            #expect(error.chain.last?.error is Broken)
            #expect(error.description.contains("outer → inner → leaf → Broken()"))
        }
    }

    @Test func childCountsDistinguishWorkersFromSupervisors() async throws {
        let clock = clock
        let nested = ChildSpec.supervisor(id: "nested") {
            Supervisor(name: "nested", strategy: .oneForOne, children: [], clock: clock)
        }
        let supervisor = supervisor(.oneForOne, [child("a"), nested])
        let run = Task { try await supervisor.run() }
        #expect(await eventually { await supervisor.countChildren().active >= 2 })
        #expect(
            await supervisor.countChildren() == ChildCounts(specified: 2, active: 2, supervisors: 1, workers: 1)
        )
        #expect(await supervisor.whichChildren().map(\.kind) == [.worker, .supervisor])
        supervisor.shutdown()
        try await run.value
    }
}
