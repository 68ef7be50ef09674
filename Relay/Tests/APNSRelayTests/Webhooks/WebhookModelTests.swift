import PushQueue
import PushQueueConformance
import Testing

@testable import APNSRelay

/// Runs the machine against a simple model of feed, storage and receiver, with crashes between any two steps.
struct WebhookModelTests {
    @Test(
        "Whatever fails, every outcome is acknowledged, or skipped by an operator, in order, with stable requests",
        arguments: 1...40
    )
    func randomFaults(seed: UInt64) {
        var world = WebhookWorld(seed: seed)
        for _ in 0..<2_000 { world.step() }
        world.finish()
        #expect(world.faults.isEmpty, "seed \(seed): \(world.faults.prefix(3))")
        // The run did what it is for.
        #expect(world.acknowledged.count > 20)
        #expect(world.crashes > 5)
        #expect(world.skipped.count > 2)
    }
}

private struct WebhookWorld {
    private var random: SeededRandom
    private var now = QueueTime(secondsSince1970: 1_795_440_000)
    private var machine = WebhookMachine(name: "w")
    /// Positions of outcomes, ascending, with gaps.
    private var feed: [Int64] = []
    private var stored = WebhookPosition()
    /// The position that the machine has read or written last. A write succeeds only if it is still stored.
    private var known = WebhookPosition()
    private var inFlight: WebhookExtent?
    private var failedAt: QueueTime?
    private var isCalm = false

    /// The extent of each request that was ever sent.
    private var extents: [String: WebhookExtent] = [:]
    private var acknowledgedSinceCrash: Set<String> = []
    /// Requests that the receiver had acknowledged before the last crash, and got again afterwards.
    private var repeatedSinceCrash: Set<String> = []
    private(set) var acknowledged: [String] = []
    private(set) var skipped: Set<String> = []
    private(set) var crashes = 0
    private(set) var faults: [String] = []

    init(seed: UInt64) {
        self.random = SeededRandom(seed: seed)
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
        if let extent = self.stored.extent, self.chance(1) { self.skip(extent) }
        if self.inFlight != nil, self.isCalm || self.chance(50) { self.respond() }
        self.perform()
    }

    /// An operator skips the stored request, at this relay or at another one.
    private mutating func skip(_ extent: WebhookExtent) {
        let id = self.machine.id(of: extent)
        self.skipped.insert(id)
        // It may not have been sent yet.
        self.extents[id] = extent
        self.failedAt = nil
        self.stored = WebhookPosition(position: extent.last)
        if self.chance(50) { self.machine.mayHaveChanged() }
    }

    private mutating func perform() {
        switch self.machine.next(now: self.now) {
        case .restore:
            if self.storageFails() { return }
            self.known = self.stored
            self.machine.didRestore(self.stored, now: self.now)
        case .read(let after):
            if self.storageFails() { return }
            let size = Int.random(in: 1...5, using: &self.random)
            let rest = self.feed.filter { $0 > after ?? 0 }.prefix(size)
            var page = WebhookMachine.Page(count: rest.count, end: rest.last ?? after)
            if let first = rest.first, let last = rest.last { page.outcomes = first...last }
            self.machine.didRead(page, now: self.now)
        case .store(let position):
            if self.storageFails() { return }
            if self.chance(5) { return self.crash() }
            guard self.stored == self.known else {
                self.machine = WebhookMachine(name: "w")
                return
            }
            (self.stored, self.known) = (position, position)
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

    private mutating func send(_ extent: WebhookExtent) {
        let id = self.machine.id(of: extent)
        if self.inFlight != nil { self.faults.append("two requests at once") }
        if let earlier = self.extents[id],
            (earlier.after, earlier.last, earlier.count) != (extent.after, extent.last, extent.count)
        {
            self.faults.append("\(id) changed")
        }
        self.extents[id] = extent
        if self.stored.extent?.first != extent.first, !self.skipped.contains(id) {
            self.faults.append("\(id) is sent before it is stored")
        }
        if self.acknowledgedSinceCrash.contains(id) { self.faults.append("\(id) is sent after its acknowledgement") }
        if self.acknowledged.contains(id), self.repeatedSinceCrash.insert(id).inserted,
            self.repeatedSinceCrash.count > 1
        {
            self.faults.append("more than one request is repeated after a crash")
        }
        if let failedAt = self.failedAt {
            let wait = failedAt.duration(to: self.now)
            if wait < .milliseconds(800) { self.faults.append("\(id) is repeated after \(wait)") }
            self.failedAt = nil
        }
        self.inFlight = extent
    }

    private mutating func respond() {
        guard let extent = self.inFlight else { return }
        self.inFlight = nil
        let id = self.machine.id(of: extent)
        if self.chance(60) {
            self.machine.didSend(.failed("422", retryAfter: nil), now: self.now, using: &self.random)
            if !self.skipped.contains(id) { self.failedAt = self.now }
            if let next = self.machine.nextAttempt, self.now.duration(to: next) > .seconds(300) {
                self.faults.append("it waits longer than five minutes")
            }
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
        self.failedAt = nil
        self.acknowledgedSinceCrash = []
        self.repeatedSinceCrash = []
        self.machine = WebhookMachine(name: "w")
        self.now = self.now.advanced(by: .seconds(1))
    }

    /// Without faults, everything arrives.
    mutating func finish() {
        self.isCalm = true
        for _ in 0..<1_000 { self.step() }
        let ended = self.extents.values.filter {
            let id = self.machine.id(of: $0)
            return self.acknowledged.contains(id) || self.skipped.contains(id)
        }.sorted { $0.first < $1.first }
        for (earlier, later) in zip(ended, ended.dropFirst()) where earlier.last >= later.first {
            self.faults.append("requests overlap")
        }
        for position in self.feed where !ended.contains(where: { $0.first <= position && position <= $0.last }) {
            self.faults.append("outcome \(position) was neither acknowledged nor skipped")
        }
        let inOrder = self.acknowledged.compactMap { self.extents[$0]?.first }
        if inOrder != inOrder.sorted() { self.faults.append("out of order: \(inOrder)") }
    }
}
