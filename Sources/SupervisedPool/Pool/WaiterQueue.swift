/// Identifies a waiting checkout by its index in the slab and a generation, because indexes are reused.
struct WaiterID: Hashable, Sendable {
    let index: Int
    let generation: UInt32
}

/// The waiting checkouts: FIFO lists over one slab, and a heap of deadlines. In the lists, adding, taking and
/// cancelling are O(1) and allocate nothing once the slab has grown. Adding a deadline to the heap is O(log n). Heap
/// entries may outlive their waiters; they are removed in bulk when more than about half of them are stale.
struct WaiterQueue {
    /// The lists. Checkouts are served in the order of the first four; the others do not wait for a stream.
    enum ListName: Int, CaseIterable {
        /// Resent interactive work, before all others.
        case front
        case interactive
        /// Resent bulk work, before other bulk work.
        case bulkFront
        case bulk
        /// Waiting for ready workers, not for a stream.
        case awaitingReady
        /// Waiting until nothing is leased and no checkout waits for a stream.
        case drains
    }

    struct Waiter {
        /// A number of streams; in the list `awaitingReady`, of ready workers. 0 in the last list.
        var wanted: Int
        var bytes: Int
        var deadline: MonotonicInstant
        var since: MonotonicInstant
        var list: ListName
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
    /// The head of the list of unused nodes.
    private var unused = -1
    private var lists = [List](repeating: List(), count: ListName.allCases.count)
    private var heap: [(deadline: MonotonicInstant, id: WaiterID)] = []
    /// The total size of the waiting checkouts, in bytes.
    private(set) var bytes = 0

    /// Checkouts that wait for streams.
    var count: Int { self.interactiveCount + self.bulkCount }
    /// Waiting checkouts that may use any free stream.
    var interactiveCount: Int { self.count(.front) + self.count(.interactive) }
    /// Waiting checkouts that must leave the interactive reserve free.
    var bulkCount: Int { self.count(.bulkFront) + self.count(.bulk) }
    /// All waiters that need a worker.
    var wanting: Int { self.count + self.count(.awaitingReady) }
    /// All waiters.
    var total: Int { self.wanting + self.count(.drains) }

    func count(_ list: ListName) -> Int { self.lists[list.rawValue].count }

    subscript(id: WaiterID) -> Waiter? {
        guard self.nodes.indices.contains(id.index), self.nodes[id.index].isWaiting,
            self.nodes[id.index].generation == id.generation
        else { return nil }
        return self.nodes[id.index].waiter
    }

    /// The next checkout to be given a stream, which may be any free one.
    var firstInteractive: WaiterID? { self.first(.front) ?? self.first(.interactive) }

    /// The next bulk checkout to be given a stream.
    var firstBulk: WaiterID? { self.first(.bulkFront) ?? self.first(.bulk) }

    func first(_ list: ListName) -> WaiterID? {
        let head = self.lists[list.rawValue].head
        return head < 0 ? nil : WaiterID(index: head, generation: self.nodes[head].generation)
    }

    /// All waiters of a list, in order.
    func all(_ list: ListName) -> [WaiterID] {
        var ids: [WaiterID] = []
        var index = self.lists[list.rawValue].head
        while index >= 0 {
            ids.append(WaiterID(index: index, generation: self.nodes[index].generation))
            index = self.nodes[index].next
        }
        return ids
    }

    mutating func append(_ waiter: Waiter) -> WaiterID {
        let list = waiter.list.rawValue
        let index: Int
        if self.unused >= 0 {
            index = self.unused
            self.unused = self.nodes[index].next
            self.nodes[index].waiter = waiter
            self.nodes[index].isWaiting = true
        } else {
            index = self.nodes.count
            self.nodes.append(Node(waiter: waiter, generation: 0, isWaiting: true, previous: -1, next: -1))
        }
        self.nodes[index].previous = self.lists[list].tail
        self.nodes[index].next = -1
        if self.lists[list].tail >= 0 {
            self.nodes[self.lists[list].tail].next = index
        } else {
            self.lists[list].head = index
        }
        self.lists[list].tail = index
        self.lists[list].count += 1
        self.bytes += waiter.bytes
        let id = WaiterID(index: index, generation: self.nodes[index].generation)
        if waiter.deadline < .distantFuture { self.addToHeap(waiter.deadline, id) }
        return id
    }

    /// Removes a waiter. Returns `nil` if it has already been removed.
    mutating func remove(_ id: WaiterID) -> Waiter? {
        guard let waiter = self[id] else { return nil }
        let index = id.index
        let list = waiter.list.rawValue
        let node = self.nodes[index]
        if node.previous >= 0 { self.nodes[node.previous].next = node.next } else { self.lists[list].head = node.next }
        if node.next >= 0 {
            self.nodes[node.next].previous = node.previous
        } else {
            self.lists[list].tail = node.previous
        }
        self.lists[list].count -= 1
        self.bytes -= waiter.bytes
        self.nodes[index].isWaiting = false
        self.nodes[index].generation &+= 1
        self.nodes[index].next = self.unused
        self.unused = index
        return waiter
    }

    /// The earliest deadline of a waiter.
    var earliestDeadline: MonotonicInstant? {
        mutating get {
            while let top = self.heap.first, self[top.id] == nil { self.removeTop() }
            return self.heap.first?.deadline
        }
    }

    /// A waiter whose deadline has been reached.
    mutating func firstExpired(_ now: MonotonicInstant) -> WaiterID? {
        guard let earliest = self.earliestDeadline, earliest <= now else { return nil }
        return self.heap.first?.id
    }

    // MARK: The heap

    private mutating func addToHeap(_ deadline: MonotonicInstant, _ id: WaiterID) {
        if self.heap.count > 2 * self.total + 64 {
            self.heap = self.heap.filter { self[$0.id] != nil }
            // A sorted array is a heap.
            self.heap.sort { $0.deadline < $1.deadline }
        }
        self.heap.append((deadline, id))
        var child = self.heap.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            if self.heap[parent].deadline <= self.heap[child].deadline { break }
            self.heap.swapAt(parent, child)
            child = parent
        }
    }

    private mutating func removeTop() {
        guard let last = self.heap.popLast(), !self.heap.isEmpty else { return }
        self.heap[0] = last
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < self.heap.count && self.heap[child].deadline < self.heap[least].deadline {
                least = child
            }
            if least == parent { return }
            self.heap.swapAt(parent, least)
            parent = least
        }
    }
}
