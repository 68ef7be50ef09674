/// A list that shows at most `limit` of the newest elements, and counts all elements that were appended.
struct BoundedList<Element: Sendable>: Sendable {
    let limit: Int
    /// How many elements were appended.
    private(set) var total = 0
    private var storage: [Element] = []

    init(limit: Int) {
        self.limit = limit
    }

    /// At most `limit` of the newest elements, in the order in which they were appended.
    var elements: ArraySlice<Element> { self.storage.suffix(self.limit) }

    mutating func append(_ element: Element) {
        self.total += 1
        // Removing a quarter at a time makes the average cost of an element constant.
        if self.storage.count >= self.limit + self.limit / 4 + 1 {
            self.storage.removeFirst(self.storage.count - self.limit + 1)
        }
        self.storage.append(element)
    }

    /// Removes the newest element that matches, and returns it.
    mutating func removeLast(where matches: (Element) -> Bool) -> Element? {
        let start = self.storage.count - min(self.storage.count, self.limit)
        guard let index = self.storage.indices.last(where: { $0 >= start && matches(self.storage[$0]) }) else {
            return nil
        }
        return self.storage.remove(at: index)
    }

    /// Changes the elements that match, the oldest first, and returns how many there are.
    mutating func update(where matches: (Element) -> Bool, _ change: (inout Element) -> Void) -> Int {
        var count = 0
        for index in self.storage.suffix(self.limit).indices where matches(self.storage[index]) {
            change(&self.storage[index])
            count += 1
        }
        return count
    }
}
