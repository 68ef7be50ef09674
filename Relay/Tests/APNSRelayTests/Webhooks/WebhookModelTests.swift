import PushQueue
import PushQueueConformance
import Testing

@testable import APNSRelay

/// Runs the machine against a simple model of feed, storage and receiver, with crashes between any two steps.
struct WebhookModelTests {
    @Test("Whatever fails, every outcome is acknowledged or parked, in order, with stable requests", arguments: 1...40)
    func randomFaults(seed: UInt64) {
        var world = WebhookWorld(seed: seed)
        for _ in 0..<2_000 { world.step() }
        world.finish()
        #expect(world.faults.isEmpty, "seed \(seed): \(world.faults.prefix(3))")
        // The run did what it is for.
        #expect(world.acknowledged.count > 20)
        #expect(world.crashes > 5)
    }

    @Test("The runs park requests, retry and drop them")
    func reachesParking() {
        var parked = 0
        var retried = 0
        var dropped = 0
        for seed in UInt64(1)...40 {
            var world = WebhookWorld(seed: seed)
            for _ in 0..<2_000 { world.step() }
            parked += world.parkedEver.count
            retried += world.retried
            dropped += world.dropped.count
        }
        #expect(parked > 50 && retried > 20 && dropped > 20)
    }
}

private struct WebhookWorld {
    private var random: SeededRandom
    private var now = QueueTime(secondsSince1970: 1_795_440_000)
    private var machine: WebhookMachine
    private var retry = WebhookMachine.Retry()
    /// Positions of outcomes, ascending, with gaps.
    private var feed: [Int64] = []
    private var storedPosition: WebhookPosition?
    private var storedParked: [ParkedWebhook] = []
    private var inFlight: WebhookExtent?
    private var isCalm = false

    /// The extent of each request that was ever sent.
    private var extents: [String: WebhookExtent] = [:]
    /// Requests that the receiver has refused: smaller ones may follow, with the same first outcome.
    private var refused: Set<String> = []
    private var acknowledgedSinceCrash: Set<String> = []
    /// Requests that the receiver had acknowledged before the last crash, and got again afterwards.
    private var repeatedSinceCrash: Set<String> = []
    private(set) var acknowledged: [String] = []
    private(set) var parkedEver: Set<String> = []
    private(set) var dropped: Set<String> = []
    private(set) var retried = 0
    private(set) var crashes = 0
    private(set) var faults: [String] = []

    init(seed: UInt64) {
        self.random = SeededRandom(seed: seed)
        self.retry.giveUpAfter = .seconds(60)
        self.retry.maxParked = 3
        self.machine = WebhookMachine(name: "w", retry: self.retry)
    }

    private mutating func chance(_ percent: Int) -> Bool {
        !self.isCalm && Int.random(in: 0..<100, using: &self.random) < percent
    }

    mutating func step() {
        if self.chance(3) { self.crash() }
        if self.chance(20) {
            let next = (self.feed.last ?? 0) + Int64.random(in: 1...4, using: &self.random)
            self.feed.append(next)
            self.machine.signal()
        }
        if self.chance(3),
            let id = self.machine.parked.randomElement(using: &self.random).map({ self.machine.id(of: $0.extent) })
        {
            if self.chance(50) {
                if self.machine.retryParked(id) { self.retried += 1 }
            } else if let rest = self.machine.parkedWithout(id) {
                self.storedParked = rest
                if self.chance(10) { self.crash() } else { self.machine.didDropParked(id) }
                self.dropped.insert(id)
            }
        }
        if self.inFlight != nil, self.isCalm || self.chance(50) { self.respond() }
        self.perform()
    }

    private mutating func perform() {
        switch self.machine.next(now: self.now) {
        case .restore:
            if self.storageFails() { return }
            self.machine.didRestore(self.storedPosition, parked: self.storedParked, now: self.now)
        case .read(let after, let limit):
            if self.storageFails() { return }
            let size = Int.random(in: 1...5, using: &self.random)
            let rest = self.feed.filter { $0 > after ?? 0 }.prefix(min(size, limit ?? size))
            var page = WebhookMachine.Page(count: rest.count, end: rest.last ?? after)
            if let first = rest.first, let last = rest.last { page.outcomes = first...last }
            self.machine.didRead(page, now: self.now)
        case .store(let writes):
            for write in writes {
                if self.storageFails() { return }
                if self.chance(5) { return self.crash() }
                switch write {
                case .position(let position): self.storedPosition = position
                case .parked(let parked): self.store(parked)
                }
            }
            if self.chance(5) { return self.crash() }
            self.machine.didStore()
        case .send(let extent): self.send(extent)
        case .wait(let until):
            if self.inFlight == nil, let until { self.now = max(self.now, until) }
            if self.inFlight == nil, until == nil { self.faults.append("it waits for nothing") }
        }
    }

    private mutating func storageFails() -> Bool {
        guard self.chance(5) else { return false }
        self.machine.storageFailed(QueueError(code: .unavailable, message: "full"), now: self.now)
        return true
    }

    private mutating func store(_ parked: [ParkedWebhook]) {
        for request in parked where self.parkedEver.insert(self.machine.id(of: request.extent)).inserted {
            let age = request.extent.formed.duration(to: self.now)
            let isRefused = request.extent.count == 1 && request.error == "422"
            if age < self.retry.giveUpAfter, !isRefused { self.faults.append("parked after \(age)") }
        }
        if parked.count > self.retry.maxParked { self.faults.append("\(parked.count) are parked") }
        self.storedParked = parked
    }

    private mutating func send(_ extent: WebhookExtent) {
        let id = self.machine.id(of: extent)
        if self.inFlight != nil { self.faults.append("two requests at once") }
        if let earlier = self.extents[id],
            (earlier.after, earlier.last, earlier.count) != (extent.after, extent.last, extent.count),
            !self.refused.contains(id)
        {
            self.faults.append("\(id) changed")
        }
        self.extents[id] = extent
        let isStored =
            self.storedPosition?.extent?.first == extent.first
            || self.storedParked.contains { $0.extent.first == extent.first }
        if !isStored { self.faults.append("\(id) is sent before it is stored") }
        if self.acknowledgedSinceCrash.contains(id) { self.faults.append("\(id) is sent after its acknowledgement") }
        if self.acknowledged.contains(id), self.repeatedSinceCrash.insert(id).inserted,
            self.repeatedSinceCrash.count > 1,
            !self.parkedEver.contains(id)
        {
            self.faults.append("more than one request is repeated after a crash")
        }
        self.inFlight = extent
    }

    private mutating func respond() {
        guard let extent = self.inFlight else { return }
        self.inFlight = nil
        let id = self.machine.id(of: extent)
        if self.chance(40) {
            self.machine.didSend(.failed("500", retryAfter: nil), now: self.now)
            return
        }
        if !self.acknowledged.contains(id), self.chance(10) {
            self.refused.insert(id)
            let isInDoubt = self.chance(30)
            self.machine.didSend(.refused("422", isInDoubt: isInDoubt), now: self.now)
            return
        }
        if !self.acknowledged.contains(id) { self.acknowledged.append(id) }
        self.acknowledgedSinceCrash.insert(id)
        if self.chance(5) { return self.crash() }
        self.machine.didSend(.acknowledged, now: self.now)
    }

    /// The process dies and starts again. A request in flight may still arrive.
    private mutating func crash() {
        self.crashes += 1
        if let extent = self.inFlight, self.chance(50) {
            let id = self.machine.id(of: extent)
            if !self.acknowledged.contains(id) { self.acknowledged.append(id) }
        }
        self.inFlight = nil
        self.acknowledgedSinceCrash = []
        self.repeatedSinceCrash = []
        self.machine = WebhookMachine(name: "w", retry: self.retry)
        self.now = self.now.advanced(by: .seconds(1))
    }

    /// Without faults, everything arrives.
    mutating func finish() {
        self.isCalm = true
        for _ in 0..<1_000 {
            for request in self.machine.parked { _ = self.machine.retryParked(self.machine.id(of: request.extent)) }
            self.step()
        }
        if !self.machine.parked.isEmpty { self.faults.append("requests are still parked") }
        let sent = self.extents.values.filter {
            let id = self.machine.id(of: $0)
            return self.acknowledged.contains(id) || self.dropped.contains(id)
        }.sorted { $0.first < $1.first }
        for (earlier, later) in zip(sent, sent.dropFirst()) where earlier.last >= later.first {
            self.faults.append("requests overlap")
        }
        for position in self.feed where !sent.contains(where: { $0.first <= position && position <= $0.last }) {
            self.faults.append("outcome \(position) was never acknowledged")
        }
        let inOrder = self.acknowledged.filter { !self.parkedEver.contains($0) }.compactMap { self.extents[$0]?.first }
        if inOrder != inOrder.sorted() { self.faults.append("out of order: \(inOrder)") }
    }
}
