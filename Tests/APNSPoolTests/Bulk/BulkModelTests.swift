import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Random histories of a bulk call against a naive model of its world: an input, a pool and a connection.
struct BulkModelTests {
    private static let run = PropertyRun(commands: 15_000, runs: 30)

    @Test(
        "Each element ends once and in time, and the input is pulled no further than allowed",
        .timeLimit(.minutes(5))
    )
    func randomHistories() async {
        var seen: [String: Int] = [:]
        for seed in Self.run.seeds {
            await TestScale.letOthersRun()
            var world = BulkWorld(seed: seed ^ 1)
            for _ in 0..<Self.run.commandsPerRun where !world.isFinished && world.mistakes.isEmpty { world.command() }
            world.settle()
            #expect(world.mistakes.isEmpty, "\(world.mistakes). \(Self.run.replay(seed))")
            if !world.mistakes.isEmpty { return }
            seen.merge(world.seen, uniquingKeysWith: +)
        }
        guard Self.run.seeds.count > 1, Self.run.commandsPerRun >= 500 else { return }
        for event in [
            "accepted", "no response", "resent", "held", "tried", "expired", "expired while held", "paused", "stopped",
            "drained", "client ended", "breaker", "cancelled", "input empty", "rate", "refused at once",
        ] {
            #expect(seen[event, default: 0] > 0, "\(event) never happened in \(seen)")
        }
    }
}

/// A naive model of the input, the pool and the connection around a `BulkMachine`.
private struct BulkWorld {
    enum Place: Equatable {
        case waiting
        case onConnection
        case resending(MonotonicInstant)
        case ended
    }

    private final class Mistakes {
        var all: [String] = []
    }

    /// A class, so that the message of a check can read the world.
    private let record = Mistakes()
    var mistakes: [String] { self.record.all }
    private(set) var seen: [String: Int] = [:]
    private(set) var isFinished = false

    private var machine: BulkMachine
    private let maxInFlight: Int
    private var random: SeededRandom
    private var now = MonotonicInstant(nanoseconds: 0)
    private var wakeUp = MonotonicInstant(nanoseconds: 0)
    private var places: [Place] = []
    private var deadlines: [MonotonicInstant] = []
    private var elementsLeft: Int
    /// The elements that the input gives without a pause.
    private var elementsHere = 0
    private var isClosed = false
    private var asked: (count: Int, deadline: MonotonicInstant)?
    private var orders = BulkControl.Orders()
    /// The last checkout failed or a push had no response, and no push has had a response since.
    private var isDoubtful = false
    private var isStopping = false
    private var sendsNothing = false
    private var hasResponded = false
    /// The outcomes that the consumer has not taken.
    private var unread = 0

    init(seed: UInt64) {
        self.random = SeededRandom(seed: seed ^ 1)
        self.maxInFlight = Int.random(in: 1...700, using: &self.random)
        self.machine = BulkMachine(maxInFlight: self.maxInFlight, seed: seed ^ 1)
        self.elementsLeft = Int.random(in: 0...3000, using: &self.random)
        self.elementsHere = self.elementsLeft
    }

    private mutating func note(_ event: String) { self.seen[event, default: 0] += 1 }

    private func all(_ place: Place) -> [Int] { self.places.indices.filter { self.places[$0] == place } }

    private var unfinished: Int { self.places.count { $0 != .ended } }

    private func check(_ isTrue: Bool, _ mistake: @autoclosure () -> String) {
        if !isTrue { self.record.all.append(mistake()) }
    }

    // MARK: A round, as the caller of the machine performs it

    private mutating func performRound() {
        self.machine.beginRound()
        for _ in 0..<10_000 {
            self.admitResends()
            self.machine.unread = self.unread
            switch self.machine.next(self.now) {
            case .pull(let count): self.pull(count)
            case .closeInput:
                self.check(!self.isClosed, "closed twice")
                self.isClosed = true
            case .end(let indices, let end): for index in indices { self.end(index, end) }
            case .checkOut(let count, let deadline):
                self.check(self.asked == nil, "a second checkout while one is pending")
                self.check(count > 0 && count <= self.all(.waiting).count, "a checkout of \(count)")
                self.asked = (count, deadline)
            case .wait(let instant):
                self.wakeUp = instant
                guard self.unread > 0 else { return self.checkRest() }
                // The consumer takes the outcomes and requests more.
                self.unread = 0
                self.machine.beginRound()
            case .finish:
                self.check(self.unfinished == 0, "finished with \(self.unfinished) unfinished")
                self.isFinished = true
                return
            }
        }
        self.check(false, "the machine performs steps without end")
    }

    /// A resend that is due waits for a stream. So does every resend once nothing more is sent.
    private mutating func admitResends() {
        for case (let index, .resending(let instant)) in self.places.enumerated()
        where instant <= self.now || self.sendsNothing {
            self.places[index] = .waiting
        }
    }

    private func checkRest() {
        self.check(self.wakeUp > self.now, "the wake-up is in the past")
        self.check(self.machine.unfinished == self.unfinished, "\(self.machine.unfinished) of \(self.unfinished)")
        for (index, place) in self.places.enumerated() where place == .waiting {
            self.check(self.deadlines[index] > self.now, "\(index) waits beyond its deadline")
            self.check(self.wakeUp <= self.deadlines[index], "no wake-up for the deadline of \(index)")
        }
        for case .resending(let instant) in self.places {
            self.check(instant > self.now, "a resend is late")
            self.check(self.wakeUp <= instant, "no wake-up for a resend")
        }
        if self.all(.onConnection).isEmpty, self.asked == nil, self.wakeUp == .distantFuture {
            self.check(
                self.orders.isPaused || self.elementsHere == 0,
                "it waits with nothing pending: \(self.machine)"
            )
        }
    }

    private mutating func pull(_ count: Int) {
        self.check(count > 0, "pull of \(count)")
        if !self.isClosed {
            self.check(!self.orders.isPaused, "pulled while paused")
            self.check(count + self.unfinished + self.unread <= self.maxInFlight, "\(count) more than allowed")
            if self.isDoubtful, !self.isStopping {
                self.check(count == 1 && self.unfinished == 0, "pulled \(count) while sending is in doubt")
            }
            if !self.hasResponded { self.check(count + self.unfinished <= 500, "too many before the first response") }
        }
        for _ in 0..<count {
            if self.elementsHere == 0 || self.isClosed {
                if self.elementsLeft == 0 || self.isClosed {
                    self.machine.inputIsOver()
                } else {
                    self.note("input empty")
                    self.machine.inputIsEmpty()
                }
                return
            }
            self.elementsHere -= 1
            self.elementsLeft -= 1
            if Int.random(in: 0..<20, using: &self.random) == 0 {
                self.machine.pulledInvalid()
                self.unread += 1
                continue
            }
            let deadline = self.now.advanced(by: .milliseconds(Int.random(in: 1...5000, using: &self.random)))
            self.machine.pulled(self.places.count, deadline: deadline)
            self.places.append(.waiting)
            self.deadlines.append(deadline)
        }
    }

    private mutating func end(_ index: Int, _ end: AttemptEnd) {
        guard case .notSent(let code, _, _, let isFinal) = end else { return self.check(false, "\(end)") }
        self.check(self.places[index] == .waiting, "\(index) ends while it is \(self.places[index])")
        if isFinal {
            self.unread += 1
            self.places[index] = .ended
            switch code {
            case .deadlineExceeded,
                .unavailable where !self.isStopping,
                .outage where !self.isStopping:
                self.check(self.deadlines[index] <= self.now, "\(index) ended before its deadline")
                self.note(code == .deadlineExceeded ? "expired" : "expired while held")
            default: break
            }
        } else {
            self.note("refused at once")
            self.resend(index)
        }
    }

    private mutating func resend(_ index: Int) {
        let later = self.now.advanced(by: .milliseconds(Int.random(in: 0...300, using: &self.random)))
        guard later < self.deadlines[index] else {
            self.unread += 1
            return self.places[index] = .ended
        }
        self.note("resent")
        self.places[index] = .resending(later)
        self.machine.resend(index, deadline: self.deadlines[index], notBefore: later)
    }

    // MARK: Events

    mutating func command() {
        switch Int.random(in: 0..<100, using: &self.random) {
        case 0..<30: self.respond()
        case 30..<60: self.completeCheckout()
        case 60..<85: self.passTime()
        case 85..<91: self.elementsHere = min(self.elementsLeft, [0, 10, 3000].randomElement(using: &self.random) ?? 0)
        case 91..<96: self.order()
        case 96 where Int.random(in: 0..<5, using: &self.random) == 0: self.interrupt()
        default: break
        }
        self.performRound()
    }

    private mutating func passTime() {
        let latest = self.now.advanced(by: .milliseconds(Int.random(in: 0...400, using: &self.random)))
        self.now = max(self.now, min(self.wakeUp, latest))
    }

    private mutating func completeCheckout() {
        guard let (count, deadline) = self.asked else { return }
        self.asked = nil
        switch Int.random(in: 0..<20, using: &self.random) {
        case 0: self.machine.checkoutWithdrawn()
        case 1: self.fail(.notSent(.connectionLost, "the pool stopped", isFinal: false))
        case 2..<5:
            self.note("held")
            if !self.isStopping { self.isDoubtful = true }
            if Bool.random(using: &self.random) {
                self.fail(.notSent(.unavailable, "no connection", isFinal: true))
            } else {
                self.note("bad weather")
                // The weather itself admits one push at a time, also beside others that are on a connection.
                self.isDoubtful = false
                let until = self.now.advanced(by: .milliseconds(Int.random(in: 0...500, using: &self.random)))
                self.fail(.held(.init(description: "503 ServiceUnavailable"), since: self.now, until: until))
            }
        case 5 where deadline <= self.now: self.fail(.notSent(.deadlineExceeded, "timed out", isFinal: true))
        default: self.lease(Int.random(in: 1...count, using: &self.random))
        }
    }

    private mutating func fail(_ end: AttemptEnd) {
        self.machine.checkoutFailed(end, now: self.now)
    }

    private mutating func lease(_ count: Int) {
        let room = self.machine.leased(count)
        self.check(room <= count, "\(room) sent of \(count) streams")
        if self.isDoubtful {
            self.note("tried")
            self.check(
                room + self.all(.onConnection).count <= max(1, self.all(.onConnection).count),
                "more than a trial"
            )
        }
        var sent = 0
        for _ in 0..<room {
            guard let push = self.machine.popWaiting() else { return self.check(false, "no push waits for the stream") }
            self.check(self.places[push.index] == .waiting, "\(push.index) sent while it is \(self.places[push.index])")
            if push.deadline <= self.now {
                self.places[push.index] = .ended
                self.unread += 1
                self.note("expired")
                continue
            }
            self.places[push.index] = .onConnection
            sent += 1
        }
        self.machine.submitted(sent)
        self.check(self.machine.inFlight == self.all(.onConnection).count, "wrong count in flight")
    }

    private mutating func respond() {
        let active = self.all(.onConnection).shuffled(using: &self.random)
        let kind = Int.random(in: 0..<10, using: &self.random)
        let count = Int.random(in: 0...max(1, active.count), using: &self.random)
        for index in active.prefix(count) {
            switch kind {
            case 0:
                self.note("no response")
                self.places[index] = .ended
                self.unread += 1
            case 1:
                self.places[index] = .ended
                self.resend(index)
            default:
                self.note("accepted")
                self.machine.receivedVerdict()
                self.machine.deviceTokenWorks()
                (self.isDoubtful, self.hasResponded) = (false, true)
                self.places[index] = .ended
                self.unread += 1
            }
        }
        self.machine.received(min(count, active.count))
    }

    private mutating func order() {
        switch Int.random(in: 0..<24, using: &self.random) {
        case 0..<10:
            self.orders.isPaused.toggle()
            self.note("paused")
        case 10..<20:
            self.note("rate")
            self.orders.rate = Bool.random(using: &self.random) ? nil : .perSecond(1000)
        case 20:
            self.orders.isStopped = true
            self.isStopping = true
            self.note("stopped")
        default: return
        }
        self.machine.set(self.orders, now: self.now)
    }

    private mutating func interrupt() {
        self.isStopping = true
        let kind = Int.random(in: 0..<4, using: &self.random)
        self.sendsNothing = self.sendsNothing || kind > 0
        switch kind {
        case 0:
            self.note("drained")
            self.machine.drain()
        case 1:
            self.note("client ended")
            self.machine.clientEnded(.notSent(.shuttingDown, "over", isFinal: true))
        case 2:
            self.note("breaker")
            self.machine.stop(.notSent(.suspectedMisconfiguration, "?", isFinal: true), mustBeReported: true)
        default:
            self.note("cancelled")
            self.machine.stop(.notSent(.cancelled, "cancelled", isFinal: true))
        }
    }

    /// From now on nothing fails, so the call must end.
    mutating func settle() {
        self.orders.isPaused = false
        self.orders.rate = nil
        self.machine.set(self.orders, now: self.now)
        self.elementsHere = self.elementsLeft
        for _ in 0..<20_000 where !self.isFinished && self.mistakes.isEmpty {
            if let (count, _) = self.asked {
                self.asked = nil
                self.lease(count)
            }
            let active = self.all(.onConnection)
            for index in active {
                self.machine.receivedVerdict()
                self.machine.deviceTokenWorks()
                (self.isDoubtful, self.hasResponded) = (false, true)
                self.places[index] = .ended
                self.unread += 1
            }
            self.machine.received(active.count)
            self.performRound()
            if active.isEmpty, self.asked == nil, self.wakeUp < .distantFuture { self.now = max(self.now, self.wakeUp) }
        }
        self.check(
            self.isFinished,
            "the call does not end: \(self.unfinished) unfinished, \(self.elementsLeft) elements left"
        )
    }
}
