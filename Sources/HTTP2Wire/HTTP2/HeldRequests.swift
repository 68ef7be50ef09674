import NIOCore

/// One request on its way to nghttp2.
struct NewStream {
    var lengths: SIMD8<UInt16>
    /// A slot of the session's fixed fields; set when the stream is opened.
    var fixed: Int32
    /// A slot of the session's bodies.
    var body: Int32
    var bodyCount: Int
    var tag: UInt64
    var deadline: NIODeadline
    var isBulk: Bool
}

/// A request that waits until its body fits into the connection's send window, or until the path is known to be there.
/// nghttp2 knows nothing of it, so nothing
/// of it is written.
struct HeldRequest {
    var shared: HeaderBlock
    var credential: HeaderBlock?
    var values: [UInt8]
    var stream: NewStream
}

/// The requests that wait, in the order in which they go.
struct HeldRequests {
    // Hundreds may wait, and each is taken from the front.
    private var interactive = CircularBuffer<HeldRequest>()
    private var bulk = CircularBuffer<HeldRequest>()

    var isEmpty: Bool { self.interactive.isEmpty && self.bulk.isEmpty }
    var count: Int { self.interactive.count + self.bulk.count }
    var first: HeldRequest? { self.interactive.first ?? self.bulk.first }

    /// Whether a new request must queue behind others of its lane.
    func isWaiting(isBulk: Bool) -> Bool { !self.interactive.isEmpty || (isBulk && !self.bulk.isEmpty) }

    mutating func append(_ request: HeldRequest) {
        if request.stream.isBulk { self.bulk.append(request) } else { self.interactive.append(request) }
    }

    mutating func removeFirst() {
        _ = self.interactive.popFirst() ?? self.bulk.popFirst()
    }

    /// Takes out the requests for which `condition` holds.
    mutating func remove(where condition: (HeldRequest) -> Bool) -> [HeldRequest] {
        let removed = Array(self.interactive.filter(condition)) + self.bulk.filter(condition)
        if !removed.isEmpty {
            self.interactive.removeAll(where: condition)
            self.bulk.removeAll(where: condition)
        }
        return removed
    }

    /// The earliest deadline.
    var deadline: NIODeadline? {
        [self.interactive.lazy.map(\.stream.deadline).min(), self.bulk.lazy.map(\.stream.deadline).min()]
            .compactMap { $0 }.min()
    }
}
