import NIOCore

/// A request to submit to nghttp2.
struct NewStream {
    var lengths: SIMD8<UInt16>
    /// An entry of the session's `sharedFields`: the header blocks that the request shares with others.
    var sharedFields: Int32
    /// An entry of the session's `bodies`.
    var body: Int32
    var bodyCount: Int
    var tag: StreamTag
    /// When the request ends, sent or not.
    var deadline: NIODeadline
    /// How long the response may take, counted from when the stream is opened.
    var responseLimit: TimeAmount
    var isBulk: Bool

    /// When the stream is reset if no response has arrived, if it is opened now.
    func streamDeadline(_ now: NIODeadline) -> NIODeadline { min(self.deadline, now + self.responseLimit) }
}

/// A request that is held until its body fits into the connection's send window, or until the path check has succeeded.
/// It has not been passed to nghttp2, so no part of it has been written.
struct HeldRequest {
    /// While the request is held, it retains its entries `sharedFields` and `body` once each.
    var stream: NewStream
    /// How many requests were held before this one.
    fileprivate(set) var number: Int
    /// The offset of its values, in bytes, among all values that the lane has ever held.
    fileprivate var position: Int
    fileprivate var valueCount: Int
}

/// The held requests, in the order in which they will be sent.
struct HeldRequests {
    private var interactive = Lane()
    private var bulk = Lane()
    /// How many requests have ever been held.
    private(set) var total = 0

    var isEmpty: Bool { self.interactive.requests.isEmpty && self.bulk.requests.isEmpty }
    var count: Int { self.interactive.requests.count + self.bulk.requests.count }
    var first: HeldRequest? { self.interactive.requests.first ?? self.bulk.requests.first }

    /// Whether a new request must queue behind others.
    func isWaiting(isBulk: Bool) -> Bool {
        !self.interactive.requests.isEmpty || (isBulk && !self.bulk.requests.isEmpty)
    }

    /// Adds a request.
    ///
    /// - Parameters:
    ///   - stream: The request.
    ///   - values: The values of its variable fields. They are copied.
    mutating func append(_ stream: NewStream, _ values: UnsafeBufferPointer<UInt8>) {
        if stream.isBulk {
            self.bulk.append(stream, values, number: self.total)
        } else {
            self.interactive.append(stream, values, number: self.total)
        }
        self.total += 1
    }

    /// The number of the request that has been held longest.
    var oldest: Int? {
        [self.interactive, self.bulk].compactMap { $0.requests.first?.number }.min()
    }

    /// A condition that holds for all requests except the first `count`.
    func isBehind(_ count: Int) -> (HeldRequest) -> Bool {
        let interactive = self.interactive.requests.dropFirst(count).first?.number ?? .max
        let others = max(0, count - self.interactive.requests.count)
        let bulk = self.bulk.requests.dropFirst(others).first?.number ?? .max
        return { $0.number >= ($0.stream.isBulk ? bulk : interactive) }
    }

    /// Calls `body` with the values of a request that is still held. `body` must not access the held requests.
    ///
    /// Mutating only so that Swift does not copy the held requests for the call.
    mutating func withValues<Result>(
        of request: HeldRequest,
        _ body: (UnsafeBufferPointer<UInt8>) -> Result
    ) -> Result {
        if request.stream.isBulk { return self.bulk.withValues(of: request, body) }
        return self.interactive.withValues(of: request, body)
    }

    mutating func removeFirst() {
        if self.interactive.requests.isEmpty { self.bulk.removeFirst() } else { self.interactive.removeFirst() }
    }

    /// Removes and returns the requests for which `condition` holds.
    mutating func remove(where condition: (HeldRequest) -> Bool) -> [HeldRequest] {
        self.interactive.remove(where: condition) + self.bulk.remove(where: condition)
    }

    /// The earliest deadline.
    var deadline: NIODeadline? {
        [self.interactive, self.bulk].compactMap { $0.requests.lazy.map(\.stream.deadline).min() }.min()
    }
}

/// The held requests of one lane. There may be hundreds, and each is removed from the front, so their values are stored
/// in one array instead of one array each.
private struct Lane {
    private(set) var requests = CircularBuffer<HeldRequest>()
    private var values: [UInt8] = []
    /// How many bytes of values have been removed from the front of `values`.
    private var discarded = 0

    /// How many bytes of capacity an empty lane keeps for later requests.
    private static let keptCapacity = 32 * 1024

    mutating func append(_ stream: NewStream, _ values: UnsafeBufferPointer<UInt8>, number: Int) {
        let position = self.discarded + self.values.count
        self.requests.append(
            HeldRequest(stream: stream, number: number, position: position, valueCount: values.count)
        )
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

    /// Removes the values before the first request's, once they are more than half of all values.
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
