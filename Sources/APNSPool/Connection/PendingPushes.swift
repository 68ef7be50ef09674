import HTTP2Wire
import SupervisedPool

/// The tasks that each wait for one push: a slab whose index is the stream's tag.
struct PendingPushes {
    private struct Entry {
        var receiver: StreamContinuation?
        var ticket: UInt64
    }

    private var entries: [Entry] = []
    private var free: [Int] = []
    /// For each of the newest tickets, the probable index of its push. The position in this array is the ticket's
    /// lowest bits. The size is a power of two. It starts small and grows with the entries, because most connections
    /// never have many.
    private var hints = [Int32](repeating: 0, count: 64)
    private static let mostHints = 4096

    mutating func insert(_ receiver: StreamContinuation, ticket: UInt64) -> Int {
        let index = self.put(receiver, ticket: ticket)
        if ticket != 0 { self.hints[self.hint(ticket)] = Int32(truncatingIfNeeded: index) }
        return index
    }

    private func hint(_ ticket: UInt64) -> Int { Int(truncatingIfNeeded: ticket) & (self.hints.count - 1) }

    private mutating func put(_ receiver: StreamContinuation, ticket: UInt64) -> Int {
        if let index = self.free.popLast() {
            self.entries[index] = Entry(receiver: receiver, ticket: ticket)
            return index
        }
        self.entries.append(Entry(receiver: receiver, ticket: ticket))
        if self.entries.count > self.hints.count / 2, self.hints.count < Self.mostHints { self.growHints() }
        return self.entries.count - 1
    }

    private mutating func growHints() {
        self.hints = [Int32](repeating: 0, count: self.hints.count * 4)
        for (index, entry) in self.entries.enumerated() where entry.ticket != 0 {
            self.hints[self.hint(entry.ticket)] = Int32(truncatingIfNeeded: index)
        }
    }

    /// Removes and returns the receiver at `index`; nil if there is none.
    mutating func remove(_ index: Int) -> StreamContinuation? {
        guard self.entries.indices.contains(index), let receiver = self.entries[index].receiver else { return nil }
        self.entries[index].receiver = nil
        self.free.append(index)
        return receiver
    }

    func index(ofTicket ticket: UInt64) -> Int? {
        guard ticket != 0 else { return nil }
        let hint = Int(self.hints[self.hint(ticket)])
        if self.entries.indices.contains(hint), self.entries[hint].ticket == ticket {
            return self.entries[hint].receiver == nil ? nil : hint
        }
        return self.entries.firstIndex { $0.receiver != nil && $0.ticket == ticket }
    }

    /// The indices of all pushes that still wait. They are not removed.
    func waiting() -> [Int] {
        self.entries.indices.filter { self.entries[$0].receiver != nil }
    }
}

/// The batches of bulk calls that still wait for results: a slab. A push's tag identifies the batch and the position in
/// it, so the data that the pushes of a batch share is stored once.
struct PendingBatches {
    /// The maximum number of pushes in a batch.
    static let batchSize = 64
    /// Marks tags of pushes in batches.
    private static let mark = UInt64(1) << 63

    private struct Entry {
        var collector: BulkCollector
        var origin: LeaseOrigin
        var indices: [Int32]
        /// One bit for each push without a result.
        var open: UInt64
        var probe: RotationProbe?
    }

    private var batches: [Entry?] = []
    private var free: [Int] = []

    /// Inserts a batch and returns the tag of its first push. The tags of the others follow it. The caller must not
    /// exceed the size limit: pushes beyond it get no tag.
    mutating func insert(_ batch: PushBatch) -> UInt64 {
        let count = min(batch.indices.count, Self.batchSize)
        let entry = Entry(
            collector: batch.collector,
            origin: batch.origin,
            indices: batch.indices,
            open: count == Self.batchSize ? .max : UInt64(1) << UInt64(count) - 1,
            probe: batch.probe
        )
        let number: Int
        if let last = self.free.popLast() {
            number = last
            self.batches[number] = entry
        } else {
            number = self.batches.count
            self.batches.append(entry)
        }
        return Self.mark | UInt64(number) << 6
    }

    /// Whether the tag is that of a push in a batch. Does not say whether the batch still waits.
    static func contains(_ tag: UInt64) -> Bool { tag & self.mark != 0 }

    static func number(_ tag: UInt64) -> Int { Int((tag & ~self.mark) >> 6) }

    /// Returns the push's index in the bulk call, and marks its result as received; nil if it was already received.
    mutating func close(_ tag: UInt64) -> Int? {
        let number = Self.number(tag)
        let position = Int(tag & 63)
        guard self.batches.indices.contains(number),
            let isOpen = self.batches[number].map({ $0.open >> position & 1 == 1 }),
            isOpen
        else { return nil }
        self.batches[number]?.open &= ~(1 << UInt64(position))
        return self.batches[number].map { Int($0.indices[position]) }
    }

    /// The collector that receives this batch's results, and the lease to which its streams are returned.
    func destination(_ number: Int) -> (collector: BulkCollector, origin: LeaseOrigin)? {
        self.batches[number].map { ($0.collector, $0.origin) }
    }

    /// Removes the batch if all its results have been received.
    mutating func releaseIfDone(_ number: Int) {
        guard let entry = self.batches[number], entry.open == 0 else { return }
        entry.probe?.end()
        self.batches[number] = nil
        self.free.append(number)
    }

    /// The tags of all pushes without a result. They stay in the slab until they are closed.
    func waiting() -> [UInt64] {
        self.batches.indices.flatMap { number in
            let open = self.batches[number]?.open ?? 0
            return (0..<UInt64(64)).filter { open >> $0 & 1 == 1 }.map { Self.mark | UInt64(number) << 6 | $0 }
        }
    }
}

/// Collects the results of bulk calls over one tick. Successive results of the same call and lease are delivered and
/// checked in together.
struct BulkResults {
    private var destination: (collector: BulkCollector, origin: LeaseOrigin)?
    private var number = -1
    private var items: [BulkCollector.Item] = []

    mutating func add(_ result: StreamResult, to batches: inout PendingBatches, pool: Pool<ConnectionActor>) {
        let number = PendingBatches.number(result.tag)
        guard let index = batches.close(result.tag) else { return }
        if number != self.number {
            if self.number >= 0 { batches.releaseIfDone(self.number) }
            self.number = number
            let next = batches.destination(number)
            if next?.collector !== self.destination?.collector || next?.origin != self.destination?.origin {
                self.deliver(pool: pool)
                self.destination = next
            }
        }
        self.items.append(BulkCollector.Item(index: index, result: result))
    }

    mutating func finish(_ batches: inout PendingBatches, pool: Pool<ConnectionActor>) {
        if self.number >= 0 { batches.releaseIfDone(self.number) }
        self.deliver(pool: pool)
    }

    /// Returns the streams first, because a task woken by the results may need them at once.
    private mutating func deliver(pool: Pool<ConnectionActor>) {
        guard let destination, !self.items.isEmpty else { return }
        pool.checkin(destination.origin, count: self.items.count)
        destination.collector.deliver(self.items)
        self.items = []
    }
}
