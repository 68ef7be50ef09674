import Synchronization

/// Limits the total size of the request bodies that are being read or parsed.
final class BufferBudget: Sendable {
    private let limit: Int
    private let used = Mutex(0)

    init(limit: Int) {
        self.limit = limit
    }

    /// Reserves bytes.
    ///
    /// - Returns: whether the bytes fit. If not, nothing is reserved.
    func reserve(_ count: Int) -> Bool {
        self.used.withLock { used in
            guard count <= self.limit - used else { return false }
            used += count
            return true
        }
    }

    func release(_ count: Int) {
        self.used.withLock { $0 -= count }
    }

    /// The number of reserved bytes.
    var reserved: Int { self.used.withLock { $0 } }
}
