import TestSupport
import Testing

@testable import SupervisedPool

/// The results of started children, and children that never start.
struct SupervisorStartTests {
    private static func spec(_ name: String, _ restart: ChildSpec.Restart = .permanent) -> ChildSpec {
        ChildSpec(id: ChildSpec.ID(name), restart: restart, startTimeout: .seconds(3)) { _ in }
    }

    @Test("A restart that takes too long is stopped, counts, and is retried")
    func restartTimesOut() {
        var bench = SupervisorBench(.oneForOne, [Self.spec("a")], intensity: RestartIntensity(restarts: 2))
        bench.begin()
        bench.slowToStart = ["a"]
        bench.fail("a")
        _ = bench.takeLog()
        bench.advance(.milliseconds(2999))
        #expect(bench.takeLog() == [])
        bench.advance(.milliseconds(1))
        #expect(bench.takeLog() == ["stop a", "start a3"])
        bench.slowToStart = []
        bench.started("a")
        bench.advance(.seconds(60))
        #expect(bench.machine.statuses.map(\.state) == [.running])
        #expect(bench.machine.failures.count == 2)
        #expect((bench.machine.failures.last?.error as? SupervisorError)?.code == .startTimedOut)
    }

    @Test("A child that does not start in time is removed, and its caller gets an error")
    func dynamicStartTimesOut() {
        var bench = SupervisorBench(.oneForOne, [])
        bench.begin()
        bench.slowToStart = ["x"]
        bench.command(.start(Self.spec("x")))
        _ = bench.takeLog()
        bench.advance(.seconds(3))
        #expect(bench.takeLog() == ["stop x", "no 1 startFailed"])
        #expect(bench.machine.counts.specified == 0)
    }

    @Test("A first child that does not start in time ends the supervisor")
    func bootTimesOut() {
        var bench = SupervisorBench(.oneForOne, [Self.spec("a"), Self.spec("b")])
        bench.slowToStart = ["b"]
        bench.begin()
        bench.advance(.seconds(3))
        #expect(bench.takeLog() == ["start a1", "start b1", "stop b", "stop a", "finish startFailed"])
    }

    @Test("The caller that starts a child receives the child's start result")
    func startResult() async throws {
        let supervisor = Supervisor(name: "test", strategy: .oneForOne, children: [])
        let events = Journal<String>()
        let context = ChildContext(id: "root") { events.write("started") }
        let run = Task { try await supervisor.run(context) }
        await events.wait(count: 1)
        func child(_ name: String, _ result: Int?) -> ChildSpec {
            ChildSpec(id: ChildSpec.ID(name)) { context in
                let (requests, end) = AsyncStream<Void>.makeStream()
                context.onShutdown { end.finish() }
                context.started(result.map { $0 + context.generation })
                context.started("too late")
                for await _ in requests {}
            }
        }
        #expect(try await supervisor.startChild(child("port", 8000)) as? Int == 8001)
        try await supervisor.terminateChild("port")
        #expect(try await supervisor.restartChild("port") as? Int == 8002)
        #expect(try await supervisor.startChild(child("silent", nil)) as? Int == nil)
        supervisor.shutdown()
        try await run.value
    }
}
