import PushQueue
import PushQueueConformance
import Testing

@testable import APNSRelay

struct WebhookMachineTests {
    private static let start = QueueTime(secondsSince1970: 1_795_440_000)

    private static func machine(
        _ retry: WebhookMachine.Retry = WebhookMachine.Retry(),
        position: WebhookPosition = WebhookPosition()
    ) -> WebhookMachine {
        var machine = WebhookMachine(name: "crm", retry: retry)
        #expect(Self.next(&machine, Self.start) == .restore)
        machine.didRestore(position, now: Self.start)
        return machine
    }

    private static func page(_ outcomes: ClosedRange<Int64>, count: Int = 3) -> WebhookMachine.Page {
        WebhookMachine.Page(outcomes: outcomes, count: count, oldest: Self.start, end: outcomes.upperBound)
    }

    /// A machine that sends the outcomes 5 to 7.
    private static func sending(_ retry: WebhookMachine.Retry = WebhookMachine.Retry()) -> WebhookMachine {
        var machine = Self.machine(retry)
        machine.didRead(Self.page(5...7), now: Self.start)
        _ = machine.next(now: Self.start)
        machine.didStore()
        guard case .send = machine.next(now: Self.start) else {
            Issue.record("it sends nothing")
            return machine
        }
        return machine
    }

    // The macro `#expect` cannot call mutating functions.
    private static func next(_ machine: inout WebhookMachine, _ now: QueueTime) -> WebhookMachine.Action {
        machine.next(now: now)
    }

    private static func after(_ duration: Duration) -> QueueTime { Self.start.advanced(by: duration) }

    @Test("A request's extent is stored before the request is sent")
    func storesFirst() {
        var machine = Self.machine()
        #expect(Self.next(&machine, Self.start) == .read(after: nil))
        machine.didRead(Self.page(5...7), now: Self.start)
        guard case .store(let stored) = machine.next(now: Self.start) else {
            Issue.record("it does not store")
            return
        }
        #expect(stored.position == nil)
        #expect(stored.extent?.first == 5)
        #expect(stored.extent?.last == 7)
        machine.didStore()
        #expect(Self.next(&machine, Self.start) == stored.extent.map { .send($0) })
        #expect(Self.next(&machine, Self.start) == .wait(until: nil))
    }

    @Test("The position is stored with the next request's extent, or at the end of the feed")
    func storesPosition() {
        var machine = Self.sending()
        machine.didSend(.acknowledged, now: Self.start)
        #expect(Self.next(&machine, Self.start) == .read(after: 7))
        machine.didRead(WebhookMachine.Page(count: 0, end: 7), now: Self.start)
        #expect(Self.next(&machine, Self.start) == .store(WebhookPosition(position: 7, extent: nil)))
        machine.didStore()
        #expect(Self.next(&machine, Self.start) == .wait(until: Self.after(.seconds(10))))
        machine.signal()
        #expect(Self.next(&machine, Self.start) == .read(after: 7))
    }

    /// Lets the current request fail, and lets time pass until it is sent again. The stored position is read meanwhile,
    /// and has not changed.
    private static func fail(
        _ machine: inout WebhookMachine,
        _ stored: WebhookPosition,
        _ now: inout QueueTime,
        using random: inout some RandomNumberGenerator
    ) -> Duration {
        let start = now
        machine.didSend(.failed("500", retryAfter: nil), now: now, using: &random)
        while true {
            switch machine.next(now: now) {
            case .wait(let until?): now = until
            case .restore: machine.didRestore(stored, now: now)
            case .send(let extent):
                #expect(extent == stored.extent)
                return start.duration(to: now)
            default:
                Issue.record("it does not wait")
                return .zero
            }
        }
    }

    @Test("The delays double up to five minutes, for as long as it takes; up to a fifth of each is random")
    func delays() {
        for seed in UInt64(0)..<20 {
            var random = SeededRandom(seed: seed)
            var machine = Self.sending()
            let stored = WebhookPosition(position: nil, extent: machine.current)
            var now = Self.start
            for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256] + Array(repeating: 300, count: 1_000) {
                let delay = Self.fail(&machine, stored, &now, using: &random)
                #expect(delay <= .seconds(seconds) && delay >= .milliseconds(seconds * 800 - 1), "seed \(seed)")
            }
            #expect(machine.failures == 1_009)
        }
    }

    @Test("The receiver's retry-after extends a delay, but never beyond an hour")
    func retryAfter() {
        for (asked, seconds) in [(0, 1), (90, 90), (1_000_000, 3_600)] {
            var machine = Self.sending()
            machine.didSend(.failed("503", retryAfter: .seconds(asked)), now: Self.start)
            #expect(machine.nextAttempt == Self.after(.seconds(seconds)))
        }
    }

    @Test("While a request fails, the stored position is read at an interval, and a skip is found")
    func findsSkip() {
        var machine = Self.sending()
        let stored = WebhookPosition(position: nil, extent: machine.current)
        machine.didSend(.failed("500", retryAfter: .seconds(60)), now: Self.start)
        #expect(Self.next(&machine, Self.start) == .wait(until: Self.after(.seconds(10))))
        #expect(Self.next(&machine, Self.after(.seconds(10))) == .restore)
        machine.didRestore(stored, now: Self.after(.seconds(10)))
        #expect(machine.failures == 1 && machine.lastError == "500")
        #expect(Self.next(&machine, Self.after(.seconds(10))) == .wait(until: Self.after(.seconds(20))))
        machine.didRestore(WebhookPosition(position: 7), now: Self.after(.seconds(20)))
        #expect(machine.failures == 0 && machine.lastError == nil && machine.current == nil)
        #expect(Self.next(&machine, Self.after(.seconds(20))) == .read(after: 7))
    }

    @Test("A skip at this relay is found as soon as the request that is in flight ends", arguments: [true, false])
    func skipsWhileSending(acknowledges: Bool) {
        var machine = Self.sending()
        machine.mayHaveChanged()
        #expect(Self.next(&machine, Self.start) == .wait(until: nil))
        machine.didSend(acknowledges ? .acknowledged : .failed("500", retryAfter: nil), now: Self.start)
        #expect(Self.next(&machine, Self.start) == .restore)
        machine.didRestore(WebhookPosition(position: 7), now: Self.start)
        #expect(machine.failures == 0)
        #expect(Self.next(&machine, Self.start) == .read(after: 7))
    }

    @Test("If nothing has changed, a request that was acknowledged meanwhile is not sent again")
    func restoresAfterAnAcknowledgement() {
        var machine = Self.sending()
        let stored = WebhookPosition(position: nil, extent: machine.current)
        machine.mayHaveChanged()
        machine.didSend(.acknowledged, now: Self.start)
        #expect(Self.next(&machine, Self.start) == .restore)
        machine.didRestore(stored, now: Self.start)
        #expect(Self.next(&machine, Self.start) == .read(after: 7))
    }

    @Test("If another relay has posted further, its position counts, and a request that was not stored is forgotten")
    func otherRelay() {
        var machine = Self.machine()
        machine.didRead(Self.page(5...7), now: Self.start)
        machine.mayHaveChanged()
        #expect(Self.next(&machine, Self.start) == .restore)
        machine.didRestore(WebhookPosition(position: 90), now: Self.start)
        #expect(Self.next(&machine, Self.start) == .read(after: 90))
    }

    @Test("A request whose outcomes were all deleted ends, and the next one begins")
    func nothingLeft() {
        var machine = Self.sending()
        machine.didSend(.nothingLeft, now: Self.start)
        #expect(Self.next(&machine, Self.start) == .read(after: 7))
    }

    @Test("The status names the request that waits, and a receiver is stuck after an hour without an acknowledgement")
    func stuck() {
        var machine = Self.sending()
        machine.didSend(.failed("500", retryAfter: nil), now: Self.start)
        let status = machine.status(url: "")
        #expect(status.request == .init(id: "crm-5", outcomes: 3, since: Self.start, oldestOutcome: Self.start))
        #expect(!status.isStuck(now: Self.after(.seconds(3_599))))
        #expect(status.isStuck(now: Self.after(.seconds(3_600))))
        #expect(!Self.machine().status(url: "").isStuck(now: Self.after(.seconds(1_000_000))))
    }

    @Test("An error of the storage delays the webhook and loses nothing")
    func storageFails() {
        var machine = Self.machine()
        let error = QueueError(code: .unavailable, message: "the disk is full")
        machine.storageFailed(error, now: Self.start)
        #expect(Self.next(&machine, Self.start) == .wait(until: Self.after(.seconds(1))))
        #expect(machine.lastError == "the disk is full")
        #expect(Self.next(&machine, Self.after(.seconds(1))) == .read(after: nil))
        machine.didRead(Self.page(5...7), now: Self.after(.seconds(1)))
        let store = machine.next(now: Self.after(.seconds(1)))
        machine.storageFailed(error, now: Self.after(.seconds(1)))
        #expect(Self.next(&machine, Self.after(.seconds(2))) == store)
        machine.didStore()
        #expect(machine.lastError == nil)
    }

    @Test("Stored state that cannot be read stops the webhook, and nothing is written")
    func unreadableState() {
        var machine = WebhookMachine(name: "crm")
        _ = machine.next(now: Self.start)
        machine.cannotRestore("damaged")
        #expect(Self.next(&machine, Self.after(.seconds(1_000_000))) == .wait(until: nil))
        #expect(machine.lastError == "damaged")
        #expect(machine.failures == 1)
    }

    @Test("A request from the future, because the clock was set back, counts as made now")
    func clockSetBack() {
        var extent = Self.sending().current
        extent?.formed = Self.after(.seconds(1_000_000_000))
        let machine = Self.machine(position: WebhookPosition(position: nil, extent: extent))
        #expect(machine.current?.formed == Self.start)
    }

    @Test("Positions of other apps' outcomes are stored from time to time only")
    func skipsOthers() {
        var machine = Self.machine()
        var stores = 0
        for end in stride(from: Int64(500), through: 30_000, by: 500) {
            machine.didRead(WebhookMachine.Page(count: 0, end: end), now: Self.start)
            machine.didRead(WebhookMachine.Page(count: 0, end: end), now: Self.start)
            machine.signal()
            if case .store = machine.next(now: Self.start) {
                stores += 1
                machine.didStore()
            }
        }
        #expect(stores == 3)
        #expect(Self.next(&machine, Self.start) == .read(after: 30_000))
    }
}
