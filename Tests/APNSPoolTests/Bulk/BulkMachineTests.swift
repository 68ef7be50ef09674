import SupervisedPool
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The bulk machine alone: its events, and the steps that follow.
struct BulkMachineTests {
    private var machine = BulkMachine(maxInFlight: 1000, seed: 1)

    private func at(_ milliseconds: Int64) -> MonotonicInstant {
        MonotonicInstant(nanoseconds: milliseconds * 1_000_000)
    }

    private static let unavailable = AttemptEnd.notSent(.unavailable, "no connection", isFinal: true)

    /// A short description of the step.
    private func name(_ step: BulkMachine.Step) -> String {
        switch step {
        case .pull(let count): "pull \(count)"
        case .closeInput: "close input"
        case .end(let indices, let end): "end \(indices) \(end.error(now: at(0))?.code.rawValue ?? "")"
        case .checkOut(let count, let deadline): "check out \(count) until \(deadline.nanoseconds / 1_000_000)"
        case .wait(.distantFuture): "wait"
        case .wait(let instant): "wait until \(instant.nanoseconds / 1_000_000)"
        case .finish: "finish"
        }
    }

    private mutating func next(_ milliseconds: Int64) -> String { name(machine.next(at(milliseconds))) }

    private mutating func pull(_ indices: Range<Int>, deadline: Int64) {
        for index in indices { machine.pulled(index, deadline: at(deadline)) }
    }

    /// Leases `count` streams and sends waiting pushes on them.
    private mutating func lease(_ count: Int) -> [Int] {
        var sent: [Int] = []
        for _ in 0..<machine.leased(count) { if let push = machine.popWaiting() { sent.append(push.index) } }
        machine.submitted(sent.count)
        return sent
    }

    private mutating func fail(_ end: AttemptEnd, _ milliseconds: Int64) {
        machine.checkoutFailed(end, now: at(milliseconds))
    }

    @Test("A call pulls a batch, sends it, pulls no more than may be in flight, and ends with its input")
    mutating func life() {
        machine = BulkMachine(maxInFlight: 3, seed: 1)
        machine.beginRound()
        #expect(next(0) == "pull 3")
        pull(0..<3, deadline: 100)
        #expect(next(0) == "check out 3 until 100")
        #expect(lease(2) == [0, 1])
        #expect(next(0) == "check out 1 until 100")
        #expect(lease(1) == [2])
        machine.beginRound()
        #expect(next(0) == "wait")
        machine.receivedVerdict()
        machine.received(2)
        machine.beginRound()
        machine.unread = 2
        #expect(next(1) == "wait")
        machine.beginRound()
        machine.unread = 1
        #expect(next(1) == "pull 1")
        machine.inputIsEmpty()
        machine.beginRound()
        machine.unread = 0
        #expect(next(1) == "pull 2")
        machine.inputIsOver()
        #expect(next(1) == "wait")
        machine.received(1)
        #expect(next(2) == "finish")
    }

    @Test("A resent push ends at its own deadline, even if an earlier wake-up was armed")
    mutating func resentDeadline() {
        machine.beginRound()
        _ = next(0)
        pull(0..<1, deadline: 30_000)
        pull(1..<2, deadline: 500)
        _ = next(0)
        #expect(lease(2) == [0, 1])
        machine.received(2)
        machine.resend(0, deadline: at(30_000), notBefore: at(50))
        machine.resend(1, deadline: at(500), notBefore: at(60))
        machine.beginRound()
        machine.inputIsOver()
        #expect(next(40) == "wait until 50")
        // The first push checks out a stream with its own late deadline.
        #expect(next(50) == "check out 1 until 30000")
        #expect(next(50) == "wait until 60")
        #expect(next(60) == "wait until 500")
        #expect(next(500) == "end [1] deadlineExceeded")
        #expect(next(500) == "wait until 30000")
    }

    @Test("A failed checkout holds the input back; the pause doubles up to a second")
    mutating func hold() {
        machine.beginRound()
        _ = next(0)
        pull(0..<2, deadline: 10_000)
        var now: Int64 = 0
        var pauses: [Int64] = []
        for _ in 0..<8 {
            #expect(next(now) == "check out \(pauses.isEmpty ? 2 : 1) until 10000")
            fail(Self.unavailable, now)
            #expect(machine.hold?.error(now: at(now))?.code == .unavailable)
            machine.beginRound()
            guard case .wait(let instant) = machine.next(at(now)) else { return #expect(Bool(false)) }
            // Rounded up: the machine checks out nothing before the instant.
            let then = (instant.nanoseconds + 999_999) / 1_000_000
            pauses.append(then - now)
            now = then
        }
        for (pause, longest) in zip(pauses, [50, 100, 200, 400, 800, 1000, 1000, 1000] as [Int64]) {
            #expect(pause >= longest / 2 && pause <= longest, "\(pauses)")
        }
    }

    @Test("A configuration fault ends all waiting rows at once, and then one row at a time")
    mutating func configurationFault() {
        let fault = AttemptEnd.notSent(.configuration, "not trusted", isFinal: true)
        machine.beginRound()
        _ = next(0)
        pull(0..<2, deadline: 10_000)
        _ = next(0)
        fail(fault, 0)
        #expect(next(0) == "end [0, 1] configuration")
        machine.beginRound()
        #expect(next(0) == "pull 1")
        pull(2..<3, deadline: 10_000)
        #expect(next(10).hasPrefix("wait until"))
        #expect(next(60) == "check out 1 until 10000")
        fail(fault, 60)
        #expect(next(60) == "end [2] configuration")
    }

    @Test("During a hold one push is tried; a response reopens the input, a lost push does not")
    mutating func trial() {
        machine.beginRound()
        _ = next(0)
        pull(0..<3, deadline: 10_000)
        _ = next(0)
        fail(Self.unavailable, 0)
        #expect(next(60) == "check out 1 until 10000")
        #expect(lease(5) == [0])
        machine.beginRound()
        #expect(next(60) == "wait until 10000")
        machine.received(1)
        #expect(next(70) == "check out 1 until 10000")
        #expect(lease(1) == [1])
        machine.received(1)
        machine.receivedVerdict()
        #expect(machine.hold == nil)
        machine.beginRound()
        #expect(next(80) == "pull 63")
    }

    @Test("In bad weather one push is tried whenever the weather admits one; a verdict reopens the input")
    mutating func weather() {
        let cause = WeatherStateMachine.Cause(description: "503 ServiceUnavailable")
        func held(until: Int64) -> AttemptEnd { .held(cause, since: at(0), until: at(until)) }
        machine.beginRound()
        _ = next(0)
        pull(0..<3, deadline: 10_000)
        _ = next(0)
        fail(held(until: 500), 0)
        #expect(machine.isHeldByWeather)
        // Nothing more is pulled, and the rows wait for the next trial.
        machine.beginRound()
        #expect(next(0) == "wait until 500")
        #expect(next(500) == "check out 1 until 10000")
        #expect(lease(5) == [0])
        // While the trial has no result, the weather refuses a second one.
        #expect(next(500) == "check out 1 until 10000")
        fail(held(until: 5500), 500)
        machine.beginRound()
        #expect(next(510) == "wait until 5500")
        // The trial fails, the weather changes, and the next trial may begin sooner.
        machine.received(1)
        machine.weatherChanged()
        #expect(next(520) == "check out 1 until 10000")
        #expect(lease(1) == [1])
        machine.received(1)
        machine.receivedVerdict()
        #expect(machine.hold == nil)
        machine.beginRound()
        #expect(next(530) == "pull 63")
    }

    @Test("Held rows end at their deadline with the reason of the hold; then one row is tried")
    mutating func heldRowsExpire() {
        machine.beginRound()
        _ = next(0)
        pull(0..<2, deadline: 40)
        _ = next(0)
        fail(Self.unavailable, 0)
        #expect(next(20).hasPrefix("wait until"))
        #expect(next(40) == "end [0, 1] unavailable")
        machine.beginRound()
        #expect(next(40) == "pull 1")
    }

    @Test("A stop during a hold makes one more attempt, then ends the held rows")
    mutating func stopDuringHold() {
        machine.beginRound()
        _ = next(0)
        pull(0..<2, deadline: 10_000)
        _ = next(0)
        fail(Self.unavailable, 0)
        machine.set(.init(isStopped: true), now: at(1))
        machine.beginRound()
        #expect(next(1) == "close input")
        #expect(next(1) == "check out 1 until 10000")
        fail(Self.unavailable, 1)
        #expect(next(1) == "end [0, 1] unavailable")
    }

    @Test("A drain closes a paused input")
    mutating func drainWhilePaused() {
        machine.set(.init(isPaused: true), now: at(0))
        machine.beginRound()
        #expect(next(0) == "wait")
        machine.drain()
        machine.beginRound()
        #expect(next(1) == "close input")
        #expect(next(1) == "pull 64")
        machine.inputIsOver()
        #expect(next(1) == "finish")
    }

    @Test("After the client has ended, the call does not wait for a silent input")
    mutating func clientEnds() {
        machine.beginRound()
        #expect(next(0) == "pull 64")
        machine.inputIsEmpty()
        #expect(next(0) == "wait")
        machine.clientEnded(.notSent(.shuttingDown, "the client was shut down", isFinal: true))
        machine.beginRound()
        #expect(next(1) == "close input")
        #expect(next(1) == "pull 64")
        machine.inputIsEmpty()
        #expect(next(1) == "finish")
    }

    @Test("A stop that must be reported pulls one element to carry its reason if none waits")
    mutating func reportedStop() {
        machine.beginRound()
        machine.stop(.notSent(.suspectedMisconfiguration, "wrong environment?", isFinal: true), mustBeReported: true)
        #expect(next(0) == "pull 1")
        pull(0..<1, deadline: 1000)
        #expect(next(0) == "end [0] suspectedMisconfiguration")
        #expect(next(0) == "close input")
    }

    @Test("A cancellation ends a stop whose reason has not been reported")
    mutating func cancelledBeforeTheReport() {
        machine.beginRound()
        machine.stop(.notSent(.suspectedMisconfiguration, "wrong environment?", isFinal: true), mustBeReported: true)
        #expect(next(0) == "pull 1")
        machine.inputIsEmpty()
        #expect(next(0) == "wait")
        machine.stop(.notSent(.cancelled, "cancelled", isFinal: true))
        machine.beginRound()
        #expect(next(1) == "close input")
    }

    @Test("The end of a hold causes no wake-up while a push or a checkout is in flight")
    mutating func noNeedlessWakeUps() {
        machine.beginRound()
        _ = next(0)
        pull(0..<2, deadline: 10_000)
        _ = next(0)
        #expect(lease(1) == [0])
        _ = next(0)
        fail(Self.unavailable, 0)
        #expect(next(500) == "wait until 10000")
        machine.received(1)
        #expect(next(500) == "check out 1 until 10000")
        #expect(next(500) == "wait until 10000")
    }

    @Test("Pushes whose credential was replaced are not held: each one is resent by its own history")
    mutating func replacedCredential() {
        machine.beginRound()
        _ = next(0)
        pull(0..<2, deadline: 1000)
        _ = next(0)
        fail(.notSent(.connectionLost, "the credential was replaced", isFinal: false), 0)
        #expect(next(0) == "end [0, 1] connectionLost")
        #expect(machine.hold == nil)
    }
}
