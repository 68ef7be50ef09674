import NIOCore

/// One request on its way to nghttp2.
struct NewStream {
    var lengths: SIMD8<UInt16>
    /// An entry of the session's fixed fields; laid out before the request is opened or held.
    var fixed: Int32
    /// An entry of the session's bodies.
    var body: Int32
    var bodyCount: Int
    var tag: UInt64
    var deadline: NIODeadline
    var isBulk: Bool
}

/// A request that waits until its body fits into the connection's send window, or until the path is known to be there.
/// nghttp2 knows nothing of it, so nothing of it is written.
struct HeldRequest {
    /// While it waits, it holds one use of each of its entries.
    var stream: NewStream
    /// Where its values begin among all that the lane has ever held, in bytes.
    fileprivate var position: Int
    fileprivate var valueCount: Int
}

/// The requests that wait, in the order in which they go.
struct HeldRequests {
    private var interactive = Lane()
    private var bulk = Lane()

    var isEmpty: Bool { self.interactive.requests.isEmpty && self.bulk.requests.isEmpty }
    var count: Int { self.interactive.requests.count + self.bulk.requests.count }
    var first: HeldRequest? { self.interactive.requests.first ?? self.bulk.requests.first }

    /// Whether a new request must queue behind others of its lane.
    func isWaiting(isBulk: Bool) -> Bool {
        !self.interactive.requests.isEmpty || (isBulk && !self.bulk.requests.isEmpty)
    }

    /// - Parameter values: the fields that differ from request to request. They are copied.
    mutating func append(_ stream: NewStream, _ values: UnsafeBufferPointer<UInt8>) {
        if stream.isBulk { self.bulk.append(stream, values) } else { self.interactive.append(stream, values) }
    }

    /// Calls `body` with the values of a request that still waits.
    func withValues<Result>(of request: HeldRequest, _ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        (request.stream.isBulk ? self.bulk : self.interactive).withValues(of: request, body)
    }

    mutating func removeFirst() {
        if self.interactive.requests.isEmpty { self.bulk.removeFirst() } else { self.interactive.removeFirst() }
    }

    /// Takes out the requests for which `condition` holds.
    mutating func remove(where condition: (HeldRequest) -> Bool) -> [HeldRequest] {
        self.interactive.remove(where: condition) + self.bulk.remove(where: condition)
    }

    /// The earliest deadline.
    var deadline: NIODeadline? {
        [self.interactive, self.bulk].compactMap { $0.requests.lazy.map(\.stream.deadline).min() }.min()
    }
}

/// The waiting requests of one lane. Hundreds may wait and each is taken from the front, so their values stand in one
/// array instead of one each.
private struct Lane {
    private(set) var requests = CircularBuffer<HeldRequest>()
    private var values: [UInt8] = []
    /// How many bytes of values were in front of `values` and are gone.
    private var discarded = 0

    /// Bytes that an empty lane keeps for the next requests.
    private static let keptCapacity = 32 * 1024

    mutating func append(_ stream: NewStream, _ values: UnsafeBufferPointer<UInt8>) {
        let position = self.discarded + self.values.count
        self.requests.append(HeldRequest(stream: stream, position: position, valueCount: values.count))
        self.values.append(contentsOf: values)
    }

    func withValues<Result>(of request: HeldRequest, _ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        let start = request.position - self.discarded
        return self.values.withUnsafeBufferPointer { all in
            body(UnsafeBufferPointer(rebasing: all[start..<start + request.valueCount]))
        }
    }

    mutating func removeFirst() {
        self.requests.removeFirst()
        self.discardValues()
    }

    mutating func remove(where condition: (HeldRequest) -> Bool) -> [HeldRequest] {
        let removed = self.requests.filter(condition)
        guard !removed.isEmpty else { return [] }
        self.requests.removeAll(where: condition)
        self.discardValues()
        return Array(removed)
    }

    /// Drops values in front of the first request's, once they are more than half of all.
    private mutating func discardValues() {
        guard let first = self.requests.first else {
            self.discarded += self.values.count
            self.values.removeAll(keepingCapacity: self.values.capacity <= Self.keptCapacity)
            return
        }
        let gone = first.position - self.discarded
        guard gone > self.values.count / 2 else { return }
        self.values.removeFirst(gone)
        self.discarded += gone
    }
}
