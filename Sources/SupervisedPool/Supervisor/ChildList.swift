import HeapModule

/// The children of a supervisor, in the order in which they were added.
///
/// Finding, changing, adding and removing one child, and the earliest deadline of all, cost the same however many
/// children there are. Only what concerns all of them walks over all of them.
struct ChildList {
    typealias Child = SupervisorStateMachine.Child
    /// Valid until a child is added or removed.
    typealias Index = Dictionary<ChildSpec.ID, Child>.Index

    private struct Deadline: Comparable {
        let instant: MonotonicInstant
        let number: Int
        let id: ChildSpec.ID

        static func < (left: Deadline, right: Deadline) -> Bool {
            (left.instant, left.number) < (right.instant, right.number)
        }
    }

    private var children: [ChildSpec.ID: Child] = [:]
    private var lastNumber = 0
    /// Entries outlive the state that they stand for, except for the earliest one.
    private var deadlines = Heap<Deadline>()
    /// Significant children that run or are going to.
    private(set) var significantCount = 0

    var count: Int { self.children.count }

    /// All children in their order.
    var inOrder: [Child] { self.children.values.sorted { $0.number < $1.number } }

    func index(of id: ChildSpec.ID) -> Index? { self.children.index(forKey: id) }

    subscript(index: Index) -> Child {
        get { self.children.values[index] }
        set {
            let old = self.children.values[index]
            self.children.values[index] = newValue
            self.significantCount += (newValue.isSignificant ? 1 : 0) - (old.isSignificant ? 1 : 0)
            guard newValue.deadline != old.deadline else { return }
            if newValue.deadline < .distantFuture {
                self.deadlines.insert(
                    Deadline(instant: newValue.deadline, number: newValue.number, id: newValue.spec.id)
                )
            }
            self.dropStaleDeadlines()
        }
    }

    /// Adds a child whose name no other child has.
    mutating func append(_ spec: ChildSpec) {
        self.lastNumber += 1
        self.children[spec.id] = Child(spec: spec, number: self.lastNumber)
    }

    mutating func remove(at index: Index) {
        if self.children.values[index].isSignificant { self.significantCount -= 1 }
        self.children.remove(at: index)
        self.dropStaleDeadlines()
    }

    mutating func removeAll() {
        self = ChildList()
    }

    // MARK: Deadlines

    /// When the first child is due.
    var earliestDeadline: MonotonicInstant? { self.deadlines.min?.instant }

    /// The first child whose deadline has come.
    func firstDue(_ now: MonotonicInstant) -> Index? {
        guard let first = self.deadlines.min, first.instant <= now else { return nil }
        return self.index(of: first.id)
    }

    private func isStale(_ deadline: Deadline) -> Bool {
        guard let child = self.children[deadline.id] else { return true }
        return child.number != deadline.number || child.deadline != deadline.instant
    }

    private mutating func dropStaleDeadlines() {
        if self.deadlines.count > 2 * self.children.count + 64 {
            self.deadlines = Heap(self.deadlines.unordered.filter { !self.isStale($0) })
        }
        while let first = self.deadlines.min, self.isStale(first) { self.deadlines.removeMin() }
    }
}
