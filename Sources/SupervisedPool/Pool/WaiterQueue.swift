/// Names a waiting checkout: a place in the slab, and which of its users.
struct WaiterID: Hashable, Sendable {
    let index: Int
    let generation: UInt32
}

/// The waiting checkouts: FIFO lists over one slab, so that adding, taking and cancelling are O(1) and allocate nothing
/// once the slab has grown, and a heap of deadlines. Its entries outlive their waiters and are swept when more than
/// half of them are dead.
struct WaiterQueue {
    /// The lists, in the order in which they are served.
    enum Lane: Int, CaseIterable {
        /// Resent interactive work, before all others.
        case front
        case interactive
        /// Resent bulk work, before other bulk work.
        case bulkFront
        case bulk
        /// Those who wait for ready workers, not for a slot.
        case observers
        /// Those who wait until nothing is leased and nobody waits for a slot.
        case drains
        /// Those who wait until a surplus worker can be ended.
        case retirements
    }

    struct Waiter {
        /// Slots; for an observer, ready workers.
        var wanted: Int
        var bytes: Int
        var deadline: MonotonicInstant
        var since: MonotonicInstant
        var lane: Lane
        /// When the waiter has stood in the queue for as long as anybody may.
        var agesAt = MonotonicInstant.distantFuture

        var leavesAt: MonotonicInstant { min(deadline, agesAt) }
    }

    private struct Node {
        var waiter: Waiter
        var generation: UInt32
        var isWaiting: Bool
        var previous: Int
        var next: Int
    }

    private struct List {
        var head = -1
        var tail = -1
        var count = 0
    }

    private var nodes: [Node] = []
    /// Heads the chain of unused nodes.
    private var unused = -1
    private var lists = [List](repeating: List(), count: Lane.allCases.count)
    private var heap: [(deadline: MonotonicInstant, id: WaiterID)] = []
    /// The bytes that the checkouts stand for.
    private(set) var bytes = 0

    /// Checkouts that wait for slots.
    var count: Int { urgentCount + bulkCount }
    /// Those of them that any free slot serves.
    var urgentCount: Int { count(.front) + count(.interactive) }
    /// Those of them that leave the interactive reserve free.
    var bulkCount: Int { count(.bulkFront) + count(.bulk) }
    /// All who need a worker.
    var wanting: Int { count + count(.observers) }
    /// All who wait.
    var total: Int { wanting + count(.drains) + count(.retirements) }

    func count(_ lane: Lane) -> Int { lists[lane.rawValue].count }

    subscript(id: WaiterID) -> Waiter? {
        guard nodes.indices.contains(id.index), nodes[id.index].isWaiting,
            nodes[id.index].generation == id.generation
        else { return nil }
        return nodes[id.index].waiter
    }

    /// The next to be given a slot, whatever slot it is.
    var firstUrgent: WaiterID? { first(.front) ?? first(.interactive) }

    /// The next bulk checkout to be given a slot.
    var firstBulk: WaiterID? { first(.bulkFront) ?? first(.bulk) }

    func first(_ lane: Lane) -> WaiterID? {
        let head = lists[lane.rawValue].head
        return head < 0 ? nil : WaiterID(index: head, generation: nodes[head].generation)
    }

    /// All who wait there, in order.
    func all(_ lane: Lane) -> [WaiterID] {
        var ids: [WaiterID] = []
        var index = lists[lane.rawValue].head
        while index >= 0 {
            ids.append(WaiterID(index: index, generation: nodes[index].generation))
            index = nodes[index].next
        }
        return ids
    }

    mutating func append(_ waiter: Waiter) -> WaiterID {
        let list = waiter.lane.rawValue
        let index: Int
        if unused >= 0 {
            index = unused
            unused = nodes[index].next
            nodes[index].waiter = waiter
            nodes[index].isWaiting = true
        } else {
            index = nodes.count
            nodes.append(Node(waiter: waiter, generation: 0, isWaiting: true, previous: -1, next: -1))
        }
        nodes[index].previous = lists[list].tail
        nodes[index].next = -1
        if lists[list].tail >= 0 { nodes[lists[list].tail].next = index } else { lists[list].head = index }
        lists[list].tail = index
        lists[list].count += 1
        bytes += waiter.bytes
        let id = WaiterID(index: index, generation: nodes[index].generation)
        if waiter.leavesAt < .distantFuture { pushDeadline(waiter.leavesAt, id) }
        return id
    }

    /// Takes a waiter out; `nil` when it has gone already.
    mutating func remove(_ id: WaiterID) -> Waiter? {
        guard let waiter = self[id] else { return nil }
        let index = id.index
        let list = waiter.lane.rawValue
        let node = nodes[index]
        if node.previous >= 0 { nodes[node.previous].next = node.next } else { lists[list].head = node.next }
        if node.next >= 0 { nodes[node.next].previous = node.previous } else { lists[list].tail = node.previous }
        lists[list].count -= 1
        bytes -= waiter.bytes
        nodes[index].isWaiting = false
        nodes[index].generation &+= 1
        nodes[index].next = unused
        unused = index
        return waiter
    }

    /// The earliest deadline of those who wait.
    var earliestDeadline: MonotonicInstant? {
        mutating get {
            while let top = heap.first, self[top.id] == nil { popDeadline() }
            return heap.first?.deadline
        }
    }

    /// One waiter whose deadline or greatest age has come.
    mutating func firstExpired(_ now: MonotonicInstant) -> WaiterID? {
        guard let earliest = earliestDeadline, earliest <= now else { return nil }
        return heap.first?.id
    }

    // MARK: The heap

    private mutating func pushDeadline(_ deadline: MonotonicInstant, _ id: WaiterID) {
        if heap.count > 2 * total + 64 {
            heap = heap.filter { self[$0.id] != nil }
            // A sorted array is a heap.
            heap.sort { $0.deadline < $1.deadline }
        }
        heap.append((deadline, id))
        var child = heap.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            if heap[parent].deadline <= heap[child].deadline { break }
            heap.swapAt(parent, child)
            child = parent
        }
    }

    private mutating func popDeadline() {
        guard let last = heap.popLast(), !heap.isEmpty else { return }
        heap[0] = last
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < heap.count && heap[child].deadline < heap[least].deadline {
                least = child
            }
            if least == parent { return }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}
