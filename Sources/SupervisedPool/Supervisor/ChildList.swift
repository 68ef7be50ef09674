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

    var count: Int { children.count }

    /// All children in their order.
    var inOrder: [Child] { children.values.sorted { $0.number < $1.number } }

    func index(of id: ChildSpec.ID) -> Index? { children.index(forKey: id) }

    subscript(index: Index) -> Child {
        get { children.values[index] }
        set {
            let old = children.values[index]
            children.values[index] = newValue
            significantCount += (newValue.isSignificant ? 1 : 0) - (old.isSignificant ? 1 : 0)
            guard newValue.deadline != old.deadline else { return }
            if newValue.deadline < .distantFuture {
                deadlines.insert(Deadline(instant: newValue.deadline, number: newValue.number, id: newValue.spec.id))
            }
            dropStaleDeadlines()
        }
    }

    /// Adds a child whose name no other child has.
    mutating func append(_ spec: ChildSpec) {
        lastNumber += 1
        children[spec.id] = Child(spec: spec, number: lastNumber)
    }

    mutating func remove(at index: Index) {
        if children.values[index].isSignificant { significantCount -= 1 }
        children.remove(at: index)
        dropStaleDeadlines()
    }

    mutating func removeAll() {
        self = ChildList()
    }

    // MARK: Deadlines

    /// When the first child is due.
    var earliestDeadline: MonotonicInstant? { deadlines.min?.instant }

    /// The first child whose deadline has come.
    func firstDue(_ now: MonotonicInstant) -> Index? {
        guard let first = deadlines.min, first.instant <= now else { return nil }
        return index(of: first.id)
    }

    private func isStale(_ deadline: Deadline) -> Bool {
        guard let child = children[deadline.id] else { return true }
        return child.number != deadline.number || child.deadline != deadline.instant
    }

    private mutating func dropStaleDeadlines() {
        if deadlines.count > 2 * children.count + 64 {
            deadlines = Heap(deadlines.unordered.filter { !isStale($0) })
        }
        while let first = deadlines.min, isStale(first) { deadlines.removeMin() }
    }
}
