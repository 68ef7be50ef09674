import HeapModule

/// The children of a supervisor, in the order in which they were added.
///
/// Finding, changing, adding or removing one child, and reading the earliest deadline, do not slow down with the number
/// of children. Only operations on all children iterate over them.
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
    /// May contain stale entries, whose child has changed state since. The earliest entry is never stale.
    private var deadlines = Heap<Deadline>()

    var count: Int { self.children.count }

    /// All children in the order in which they were added.
    var inOrder: [Child] { self.children.values.sorted { $0.number < $1.number } }

    func index(of id: ChildSpec.ID) -> Index? { self.children.index(forKey: id) }

    subscript(index: Index) -> Child {
        get { self.children.values[index] }
        set {
            let old = self.children.values[index]
            self.children.values[index] = newValue
            guard newValue.deadline != old.deadline else { return }
            if newValue.deadline < .distantFuture {
                self.deadlines.insert(
                    Deadline(instant: newValue.deadline, number: newValue.number, id: newValue.spec.id)
                )
            }
            self.dropStaleDeadlines()
        }
    }

    /// Adds a child. Its name must be unique.
    mutating func append(_ spec: ChildSpec) {
        self.lastNumber += 1
        self.children[spec.id] = Child(spec: spec, number: self.lastNumber)
    }

    mutating func remove(at index: Index) {
        self.children.remove(at: index)
        self.dropStaleDeadlines()
    }

    mutating func removeAll() {
        self = ChildList()
    }

    // MARK: Deadlines

    /// The earliest deadline of all children.
    var earliestDeadline: MonotonicInstant? { self.deadlines.min?.instant }

    /// Returns the child with the earliest deadline, if that deadline has passed.
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
