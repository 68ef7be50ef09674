import TestSupport
import Testing

@testable import SupervisedPool

/// Siblings that are stopped while a child waits for its restart.
struct SupervisorPauseTests {
    private static func children() -> [ChildSpec] {
        ["a", "b", "c"].map {
            ChildSpec(id: ChildSpec.ID($0), restartBackoff: Backoff(minimum: .seconds(1), maximum: .seconds(3))) { _ in
            }
        }
    }

    private func running(_ bench: SupervisorBench) -> [String] {
        bench.machine.statuses.filter { $0.state == .running }.map(\.id.name)
    }

    @Test(
        "Siblings start again when the child that they wait for is terminated",
        arguments: [
            (SupervisionStrategy.restForOne, "b", ["a", "c"]),
            (SupervisionStrategy.oneForAll, "b", ["a", "c"]),
            (SupervisionStrategy.oneForAll, "c", ["a", "b"]),
        ]
    )
    func terminatedWhileWaiting(_ strategy: SupervisionStrategy, _ name: String, _ siblings: [String]) {
        var bench = SupervisorBench(strategy, Self.children())
        bench.begin()
        bench.fail(ChildSpec.ID(name))
        #expect(running(bench).count < 2)
        _ = bench.takeLog()
        bench.command(.terminate(ChildSpec.ID(name)))
        #expect(bench.takeLog().first == "ok 1", "the caller waits for more than the child's end")
        #expect(running(bench) == siblings)
        bench.command(.delete(ChildSpec.ID(name)), 2)
        bench.advance(.seconds(60))
        #expect(running(bench) == siblings)
        #expect(bench.machine.nextDeadline == nil)
    }

    @Test("Siblings stay stopped while another child that they depend on still waits")
    func anotherStillWaits() {
        var bench = SupervisorBench(.restForOne, Self.children())
        bench.begin()
        bench.fail("a")
        // A command starts the second child despite the pause, and it fails too.
        bench.command(.restart("b"))
        bench.fail("b")
        bench.command(.terminate("b"), 2)
        #expect(running(bench) == [])
        bench.command(.terminate("a"), 3)
        #expect(running(bench) == ["b", "c"])
    }

    @Test("A child that waits by itself keeps its backoff when an earlier one is terminated")
    func laterOneWaits() {
        var bench = SupervisorBench(.restForOne, Self.children())
        bench.begin()
        bench.fail("a")
        bench.command(.restart("b"))
        bench.fail("b")
        bench.command(.terminate("a"), 2)
        #expect(running(bench) == [])
        bench.advance(.seconds(3))
        #expect(running(bench) == ["b", "c"])
    }
}
