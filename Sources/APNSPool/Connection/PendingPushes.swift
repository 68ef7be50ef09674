import HTTP2Wire
import SupervisedPool

/// Who waits for which stream of a connection: a slab whose index is the stream's tag.
struct PendingPushes {
    private struct Entry {
        var receiver: PushReceiver?
        var ticket: UInt64
    }

    private var entries: [Entry] = []
    private var free: [Int] = []
    /// Where the pushes with the newest tickets probably are, by the tickets' last bits.
    private var hints = [Int32](repeating: 0, count: PendingPushes.hintCount)
    private static let hintCount = 4096

    mutating func insert(_ receiver: PushReceiver, ticket: UInt64) -> Int {
        let index = self.put(receiver, ticket: ticket)
        if ticket != 0 { self.hints[Self.hint(ticket)] = Int32(truncatingIfNeeded: index) }
        return index
    }

    private static func hint(_ ticket: UInt64) -> Int { Int(truncatingIfNeeded: ticket) & (self.hintCount - 1) }

    private mutating func put(_ receiver: PushReceiver, ticket: UInt64) -> Int {
        if let index = self.free.popLast() {
            self.entries[index] = Entry(receiver: receiver, ticket: ticket)
            return index
        }
        self.entries.append(Entry(receiver: receiver, ticket: ticket))
        return self.entries.count - 1
    }

    /// The receiver of `index`, once.
    mutating func remove(_ index: Int) -> PushReceiver? {
        guard self.entries.indices.contains(index), let receiver = self.entries[index].receiver else { return nil }
        self.entries[index].receiver = nil
        self.free.append(index)
        return receiver
    }

    func index(ofTicket ticket: UInt64) -> Int? {
        guard ticket != 0 else { return nil }
        let hint = Int(self.hints[Self.hint(ticket)])
        if self.entries.indices.contains(hint), self.entries[hint].ticket == ticket {
            return self.entries[hint].receiver == nil ? nil : hint
        }
        return self.entries.firstIndex { $0.receiver != nil && $0.ticket == ticket }
    }

    /// The indices of all that still wait. They stay until they are removed.
    func waiting() -> [Int] {
        self.entries.indices.filter { self.entries[$0].receiver != nil }
    }
}

/// Results of bulk calls, gathered over one tick: one delivery and one check-in for each call and grant.
struct BulkBatch {
    private var collector: BulkCollector?
    private var grant: SlotGrant?
    private var items: [BulkCollector.Item] = []

    mutating func add(
        _ result: StreamResult,
        _ index: Int,
        _ collector: BulkCollector,
        _ grant: SlotGrant,
        pool: Pool<ConnectionActor>
    ) {
        if self.collector !== collector || self.grant != grant {
            self.flush(pool: pool)
            self.collector = collector
            self.grant = grant
        }
        self.items.append(BulkCollector.Item(index: index, result: result))
    }

    /// The slots first: whoever is woken by the results may want them at once.
    mutating func flush(pool: Pool<ConnectionActor>) {
        guard let collector, let grant, !self.items.isEmpty else { return }
        pool.checkin(grant, count: self.items.count)
        collector.deliver(self.items)
        self.items = []
    }
}
