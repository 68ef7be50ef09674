import APNSTransport
import SupervisedPool

/// The pushes of a worker that wait for their results: attempts of single pushes, and batches of bulk calls.
///
/// A slab. A push's tag consists of the index of its entry and the push's position in a batch. The data that the pushes
/// of a batch share is stored once.
struct PendingPushes {
    /// The maximum number of pushes in a batch.
    static let batchSize = 64

    enum Entry {
        case free
        case attempt(PushAttempt)
        case batch(PendingBatch)
    }

    private var entries: [Entry] = []
    private var freeIndices: [Int] = []

    /// Inserts an attempt, and sets and returns its tag.
    mutating func insert(_ attempt: PushAttempt) -> StreamTag {
        let tag = Self.tag(self.insert(.attempt(attempt)))
        attempt.tag = tag
        return tag
    }

    /// Inserts a batch and returns the tag of its first push. The tags of the others follow it. The caller must not
    /// exceed the size limit: pushes beyond it get no tag.
    mutating func insert(_ batch: PushBatch) -> StreamTag {
        Self.tag(self.insert(.batch(PendingBatch(batch))))
    }

    private mutating func insert(_ entry: Entry) -> Int {
        guard let index = self.freeIndices.popLast() else {
            self.entries.append(entry)
            return self.entries.count - 1
        }
        self.entries[index] = entry
        return index
    }

    private static func tag(_ index: Int) -> StreamTag { StreamTag(UInt64(index) << 6) }
    static func index(of tag: StreamTag) -> Int { Int(truncatingIfNeeded: tag.rawValue >> 6) }
    static func position(of tag: StreamTag) -> Int { Int(tag.rawValue & 63) }

    /// The entry with this index; `free` if there is none.
    subscript(index: Int) -> Entry { self.entries.indices.contains(index) ? self.entries[index] : .free }

    /// Removes an entry, whose index is then reused. The caller gives its pushes their results.
    mutating func remove(_ index: Int) {
        guard self.entries.indices.contains(index) else { return }
        switch self.entries[index] {
        case .free: return
        case .attempt(let attempt): attempt.tag = nil
        case .batch: break
        }
        self.entries[index] = .free
        self.freeIndices.append(index)
    }

    /// The tags of all pushes without a result.
    var waiting: [StreamTag] {
        self.entries.indices.flatMap { index -> [StreamTag] in
            let first = Self.tag(index)
            switch self.entries[index] {
            case .free: return []
            case .attempt: return [first]
            case .batch(let batch): return batch.openPositions.map { first.advanced(by: $0) }
            }
        }
    }
}

/// A batch of a bulk call that waits for results. Confined to the event loop of its connection.
final class PendingBatch {
    let collector: BulkCollector
    let origin: LeaseOrigin
    private let indices: [Int32]
    /// One bit for each push without a result.
    private var open: UInt64

    init(_ batch: PushBatch) {
        let count = min(batch.indices.count, PendingPushes.batchSize)
        self.collector = batch.collector
        self.origin = batch.origin
        self.indices = batch.indices
        self.open = count == PendingPushes.batchSize ? .max : UInt64(1) << UInt64(count) - 1
    }

    /// Whether every push has its result.
    var isDone: Bool { self.open == 0 }

    var openPositions: [Int] { (0..<PendingPushes.batchSize).filter { self.open >> UInt64($0) & 1 == 1 } }

    /// Records the result of a push.
    ///
    /// - Returns: The push's index in the bulk call; nil if it already has a result, or if there is no such push.
    func close(_ position: Int) -> Int? {
        let bit = UInt64(1) << UInt64(position)
        guard self.open & bit != 0 else { return nil }
        self.open &= ~bit
        return Int(self.indices[position])
    }
}
