import PushQueue
import PushQueueConformance
import Testing

@testable import APNSRelay

struct WebhookMachineTests {
    private static let start = QueueTime(secondsSince1970: 1_795_440_000)

    private static func machine(
        _ retry: WebhookMachine.Retry = WebhookMachine.Retry(),
        position: WebhookPosition? = nil,
        parked: [ParkedWebhook] = []
    ) -> WebhookMachine {
        var machine = WebhookMachine(name: "crm", retry: retry)
        #expect(Self.next(&machine, Self.start) == .restore)
        machine.didRestore(position, parked: parked, now: Self.start)
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

    private static func retry(_ machine: inout WebhookMachine, _ id: String) -> Bool { machine.retryParked(id) }

    private static func after(_ duration: Duration) -> QueueTime { Self.start.advanced(by: duration) }

    @Test("A request's extent is stored before the request is sent")
    func storesFirst() {
        var machine = Self.machine()
        #expect(Self.next(&machine, Self.start) == .read(after: nil, limit: nil))
        machine.didRead(Self.page(5...7), now: Self.start)
        guard case .store(let writes) = machine.next(now: Self.start), case .position(let stored)? = writes.first else {
            Issue.record("it does not store")
            return
        }
        #expect(writes.count == 1)
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
        #expect(Self.next(&machine, Self.start) == .read(after: 7, limit: nil))
        machine.didRead(WebhookMachine.Page(count: 0, end: 7), now: Self.start)
        #expect(Self.next(&machine, Self.start) == .store([.position(WebhookPosition(position: 7, extent: nil))]))
        machine.didStore()
        #expect(Self.next(&machine, Self.start) == .wait(until: Self.after(.seconds(10))))
        machine.signal()
        #expect(Self.next(&machine, Self.start) == .read(after: 7, limit: nil))
    }

    @Test("The delays double up to an hour; up to a fifth of each is random")
    func delays() {
        for seed in UInt64(0)..<20 {
            var random = SeededRandom(seed: seed)
            var machine = Self.sending()
            var now = Self.start
            for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 3_600, 3_600] {
                machine.didSend(.failed("500", retryAfter: nil), now: now, using: &random)
                guard case .wait(let until?) = Self.next(&machine, now) else {
                    Issue.record("it does not wait")
                    return
                }
                let delay = now.duration(to: until)
                #expect(delay <= .seconds(seconds) && delay >= .milliseconds(seconds * 800 - 1), "seed \(seed)")
                now = until
                guard case .send(let extent) = machine.next(now: now) else {
                    Issue.record("it does not send again")
                    return
                }
                #expect(extent.first == 5 && extent.last == 7 && extent.count == 3)
            }
            #expect(machine.failures == 14)
        }
    }

    @Test("The receiver's retry-after extends a delay, but never beyond an hour")
    func retryAfter() {
        for (asked, seconds) in [(0, 1), (90, 90), (1_000_000, 3_600)] {
            var machine = Self.sending()
            machine.didSend(.failed("503", retryAfter: .seconds(asked)), now: Self.start)
            #expect(Self.next(&machine, Self.start) == .wait(until: Self.after(.seconds(seconds))))
        }
    }

    @Test("A request that fails for too long is parked, and the next one begins")
    func parks() {
        var retry = WebhookMachine.Retry()
        retry.giveUpAfter = .seconds(3)
        var machine = Self.sending(retry)
        machine.didSend(.failed("500", retryAfter: nil), now: Self.start)
        _ = machine.next(now: Self.after(.seconds(1)))
        machine.didSend(.failed("500", retryAfter: nil), now: Self.after(.seconds(1)))
        // The last attempt is at the end of the time, not five seconds later.
        #expect(Self.next(&machine, Self.after(.seconds(1))) == .wait(until: Self.after(.seconds(3))))
        _ = machine.next(now: Self.after(.seconds(3)))
        machine.didSend(.failed("501", retryAfter: nil), now: Self.after(.seconds(3)))
        guard case .store(let writes) = machine.next(now: Self.after(.seconds(3))), writes.count == 2,
            case .parked(let parked) = writes[0]
        else {
            Issue.record("it is not parked")
            return
        }
        #expect(parked.map(\.error) == ["501"])
        #expect(writes[1] == .position(WebhookPosition(position: 7, extent: nil)))
        machine.didStore()
        #expect(machine.status(url: "").parked.map(\.id) == ["crm-5"])
        #expect(machine.failures == 0)
        #expect(Self.next(&machine, Self.after(.seconds(3))) == .read(after: 7, limit: nil))
    }

    /// Runs the machine against a receiver that refuses some of 100 outcomes, until it waits.
    private static func run(
        _ machine: inout WebhookMachine,
        refusing isRefused: (Int64) -> Bool
    ) -> (acknowledged: [Int64], requests: Int, action: WebhookMachine.Action) {
        var (acknowledged, requests): ([Int64], Int) = ([], 0)
        while true {
            let action = machine.next(now: Self.start)
            switch action {
            case .read(let after, let limit):
                let first = (after ?? 0) + 1
                let last = min(first + Int64(limit ?? 50) - 1, 100)
                var page = WebhookMachine.Page(count: 0, end: after)
                if first <= last { page = Self.page(first...last, count: Int(last - first) + 1) }
                machine.didRead(page, now: Self.start)
            case .store: machine.didStore()
            case .send(let extent):
                requests += 1
                if (extent.first...extent.last).contains(where: isRefused) {
                    machine.didSend(.refused("422", isInDoubt: false), now: Self.start)
                } else {
                    acknowledged += Array(extent.first...extent.last)
                    machine.didSend(.acknowledged, now: Self.start)
                }
            case .restore: machine.didRestore(nil, parked: [], now: Self.start)
            case .wait: return (acknowledged, requests, action)
            }
        }
    }

    @Test(
        "Of a refused request, only the refused outcomes are parked, and all others are acknowledged in order",
        arguments: [[1], [50], [51], [100], [7, 8], [1, 2, 3, 60, 99], Array(30...39)] as [[Int64]]
    )
    func splits(_ refused: [Int64]) {
        var machine = Self.machine()
        let run = Self.run(&machine) { refused.contains($0) }
        #expect(run.acknowledged == (1...100).filter { !refused.contains($0) })
        #expect(machine.parked.map(\.extent.first) == refused)
        #expect(machine.parked.allSatisfy { $0.extent.count == 1 && $0.error == "422" })
        #expect(run.requests < 3 + 16 * refused.count)
        #expect(machine.failures == 0)
    }

    @Test("A receiver that refuses everything costs ten parked outcomes, and is then retried after delays")
    func refusesEverything() {
        var machine = Self.machine()
        let run = Self.run(&machine) { _ in true }
        #expect(machine.parked.map(\.extent.first) == Array(1...10))
        #expect(run.action == .wait(until: Self.after(.seconds(1))))
        #expect(machine.failures == 1)
        // It works again.
        _ = machine.next(now: Self.after(.seconds(1)))
        machine.didSend(.acknowledged, now: Self.after(.seconds(1)))
        let rest = Self.run(&machine) { $0 == 90 }
        #expect(rest.acknowledged == (61...100).filter { $0 != 90 })
        #expect(machine.parked.count == 11)
    }

    @Test("A refusal that may concern the receiver is retried with delays before the request is halved")
    func doubtfulRefusal() {
        var machine = Self.sending()
        var now = Self.start
        for seconds in [1, 2, 4, 8, 16] {
            machine.didSend(.refused("404", isInDoubt: true), now: now)
            let until = now.advanced(by: .seconds(seconds))
            #expect(Self.next(&machine, now) == .wait(until: until))
            now = until
            _ = machine.next(now: now)
        }
        machine.didSend(.refused("404", isInDoubt: true), now: now)
        #expect(Self.next(&machine, now) == .read(after: nil, limit: 1))
        machine.didRead(Self.page(5...5, count: 1), now: now)
        _ = machine.next(now: now)
        machine.didStore()
        _ = machine.next(now: now)
        machine.didSend(.refused("404", isInDoubt: true), now: now)
        _ = machine.next(now: now)
        machine.didStore()
        #expect(machine.parked.map(\.extent.first) == [5])
        #expect(Self.next(&machine, now) == .read(after: 5, limit: nil))
    }

    @Test("With as many parked requests as allowed, a refused outcome is not skipped")
    func refusedAndFull() {
        var retry = WebhookMachine.Retry()
        retry.maxParked = 1
        var machine = Self.machine(retry)
        let run = Self.run(&machine) { [3, 5].contains($0) }
        #expect(run.acknowledged == [1, 2, 4])
        #expect(machine.parked.map(\.extent.first) == [3])
        #expect(machine.current?.first == 5 && machine.failures == 1)
    }

    @Test("With as many parked requests as allowed, the current one is retried until it is acknowledged")
    func parkedIsFull() {
        var retry = WebhookMachine.Retry()
        retry.giveUpAfter = .seconds(1)
        retry.maxParked = 0
        var machine = Self.sending(retry)
        var now = Self.after(.seconds(5))
        for _ in 0..<20 {
            machine.didSend(.failed("500", retryAfter: nil), now: now)
            guard case .wait(let until?) = machine.next(now: now), until > now else {
                Issue.record("it does not wait")
                return
            }
            now = until
            guard case .send = machine.next(now: now) else {
                Issue.record("it does not send again")
                return
            }
        }
        #expect(machine.lastError?.contains("retry or drop") == true)
        machine.didSend(.acknowledged, now: now)
        #expect(Self.next(&machine, now) == .read(after: 7, limit: nil))
    }

    @Test("A request that was parked just before a crash is not sent again as the current one")
    func crashWhileParking() {
        var sending = Self.sending()
        let extent = sending.current
        sending.didSend(.acknowledged, now: Self.start)
        let parked = extent.map { [ParkedWebhook(extent: $0, since: Self.start, error: "500")] } ?? []
        var machine = Self.machine(position: WebhookPosition(position: nil, extent: extent), parked: parked)
        #expect(Self.next(&machine, Self.start) == .read(after: 7, limit: nil))
    }

    @Test("A parked request is sent once for each retry, stays parked if that fails, and goes if it is acknowledged")
    func retriesParked() {
        let extent = Self.sending().current
        let parked = extent.map { [ParkedWebhook(extent: $0, since: Self.start, error: "500")] } ?? []
        var machine = Self.machine(position: WebhookPosition(position: 7, extent: nil), parked: parked)
        #expect(!Self.retry(&machine, "crm-6"))
        #expect(Self.retry(&machine, "crm-5"))
        #expect(Self.next(&machine, Self.start) == extent.map { .send($0) })
        machine.didSend(.failed("502", retryAfter: nil), now: Self.start)
        #expect(machine.parked.map(\.error) == ["502"])
        #expect(Self.next(&machine, Self.start) == .read(after: 7, limit: nil))
        #expect(Self.retry(&machine, "crm-5"))
        _ = machine.next(now: Self.start)
        machine.didSend(.acknowledged, now: Self.start)
        #expect(Self.next(&machine, Self.start) == .store([.parked([])]))
        machine.didStore()
        #expect(machine.parked.isEmpty)
        #expect(!Self.retry(&machine, "crm-5"))
    }

    @Test("A parked request whose outcomes were deleted says so, and can be dropped")
    func parkedAndPruned() {
        let extent = Self.sending().current
        let parked = extent.map { [ParkedWebhook(extent: $0, since: Self.start, error: "500")] } ?? []
        var machine = Self.machine(parked: parked)
        #expect(Self.retry(&machine, "crm-5"))
        _ = machine.next(now: Self.start)
        machine.didSend(.nothingLeft, now: Self.start)
        #expect(machine.status(url: "").parked.first?.error.contains("drop the request") == true)
        #expect(machine.parkedWithout("crm-5") == [])
        machine.didDropParked("crm-5")
        #expect(machine.parked.isEmpty)
    }

    @Test("An error of the storage delays the webhook and loses nothing")
    func storageFails() {
        var machine = Self.machine()
        let error = QueueError(code: .unavailable, message: "the disk is full")
        machine.storageFailed(error, now: Self.start)
        #expect(Self.next(&machine, Self.start) == .wait(until: Self.after(.seconds(1))))
        #expect(machine.lastError == "the disk is full")
        #expect(Self.next(&machine, Self.after(.seconds(1))) == .read(after: nil, limit: nil))
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

    @Test("A clock that was ahead before a restart does not extend the retries")
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
        #expect(Self.next(&machine, Self.start) == .read(after: 30_000, limit: nil))
    }
}
