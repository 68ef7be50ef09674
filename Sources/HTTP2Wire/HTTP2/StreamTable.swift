import NIOCore

/// The open streams of one session: a slab whose index is what nghttp2 carries as the stream's user data.
///
/// Entries lie in memory of its own, since each push touches one about ten times: no check of exclusivity, no copy of
/// an array. Addresses are used at once and never kept.
final class StreamTable {
    /// How much of a response's body is kept, in bytes, unless a session is told otherwise.
    static let bodyLimit = 4096
    /// How much of a message's header fields is kept, in bytes.
    static let fieldLimit = 16384
    /// The most bytes of one header block, decompressed.
    static let headerBlockLimit = 65536
    /// How much is kept of the incomplete responses of a session together, in bytes.
    static let keptLimit = 1 << 20

    /// In an order that leaves few gaps: there is one for each push in flight.
    struct Entry {
        /// 0: the entry is free.
        var streamID: Int32 = 0
        /// Keeps the memory that nghttp2 was told not to copy, until HEADERS are written. An entry of the session's `fixed`.
        var fixed: Int32 = -1
        var tag: UInt64 = 0
        /// The body that goes out: an entry of the session's `bodies`.
        var outgoing: Int32 = -1
        private var bodyCount: Int32 = 0
        private var bodyOffset: Int32 = 0
        /// The status of the header block that is being received.
        var pendingStatus: UInt16 = 0
        var status: UInt16 = 0
        /// What the response may repeat.
        var echo = EchoedValue()
        var isWritten = false
        /// The result was given; only nghttp2 still knows the stream.
        var isConcluded = false
        var hasFinalHeaders = false
        var isRemoteComplete = false
        var fields = FieldList()
        var body: [UInt8] = []
        var deadline = NIODeadline.distantFuture

        /// Up to 2 GiB, which no array of a push or a response reaches.
        var outgoingCount: Int {
            get { Int(self.bodyCount) }
            set { self.bodyCount = Int32(clamping: newValue) }
        }
        var outgoingOffset: Int {
            get { Int(self.bodyOffset) }
            set { self.bodyOffset = Int32(clamping: newValue) }
        }

        /// Ready for the next stream.
        mutating func reset() {
            self.streamID = 0
            self.tag = 0
            self.fixed = -1
            self.outgoing = -1
            self.outgoingCount = 0
            self.outgoingOffset = 0
            self.isWritten = false
            self.isConcluded = false
            self.hasFinalHeaders = false
            self.isRemoteComplete = false
            self.pendingStatus = 0
            self.status = 0
            if !self.fields.isEmpty { self.fields = FieldList() }
            if !self.body.isEmpty { self.body = [] }
            self.deadline = .distantFuture
        }
    }

    private var base: UnsafeMutablePointer<Entry>
    private var capacity = 16
    /// Entries that have been used at least once; those behind them are not there yet.
    private var used = 0
    // Unchecked: nothing that an access calls comes back here.
    @exclusivity(unchecked) private var free: [Int] = []
    /// Where the stream with a tag probably is, by the tag's last bits: tags are small numbers that are used again.
    private let hints: UnsafeMutableBufferPointer<Int32>
    private static let hintCount = 1024
    private(set) var count = 0

    init() {
        self.base = .allocate(capacity: self.capacity)
        self.hints = .allocate(capacity: Self.hintCount)
        self.hints.initialize(repeating: 0)
    }

    deinit {
        self.base.deinitialize(count: self.used)
        self.base.deallocate()
        self.hints.deallocate()
    }

    /// All indices that may be in use.
    var indices: Range<Int> { 0..<self.used }

    /// - Parameter index: one that `allocate()` gave.
    subscript(index: Int) -> Entry {
        unsafeAddress { UnsafePointer(self.base + index) }
        unsafeMutableAddress { self.base + index }
    }

    func contains(_ index: Int, streamID: Int32) -> Bool {
        index >= 0 && index < self.used && self.base[index].streamID == streamID
    }

    func remember(_ index: Int, tag: UInt64) {
        self.hints[Self.hint(tag)] = Int32(truncatingIfNeeded: index)
    }

    /// The open stream with this tag.
    func index(ofTag tag: UInt64) -> Int? {
        func isIt(_ index: Int) -> Bool {
            self.base[index].streamID != 0 && self.base[index].tag == tag && !self.base[index].isConcluded
        }
        let hint = Int(self.hints[Self.hint(tag)])
        if hint < self.used, isIt(hint) { return hint }
        return self.indices.first(where: isIt)
    }

    private static func hint(_ tag: UInt64) -> Int { Int(truncatingIfNeeded: tag) & (self.hintCount - 1) }

    /// Finds a stream that nghttp2 no longer has user data for.
    func index(of streamID: Int32) -> Int? {
        self.indices.first { self.base[$0].streamID == streamID }
    }

    /// The same, when `hint` or the entry after it is probably right.
    func index(of streamID: Int32, hint: Int) -> Int? {
        if self.contains(hint, streamID: streamID) { return hint }
        if self.contains(hint + 1, streamID: streamID) { return hint + 1 }
        return self.index(of: streamID)
    }

    /// An entry for a new stream. The caller sets its `streamID`.
    func allocate() -> Int {
        self.count += 1
        if let index = self.free.popLast() { return index }
        if self.used == self.capacity { self.grow() }
        (self.base + self.used).initialize(to: Entry())
        self.used += 1
        return self.used - 1
    }

    /// Gives an entry back. What its entries hold is the session's to drop.
    func discard(_ index: Int) {
        self.base[index].reset()
        self.free.append(index)
        self.count -= 1
    }

    private func grow() {
        // Doubling a large table would leave much of it empty: APNs allows 1,000 streams.
        let capacity = self.capacity + min(self.capacity, 128)
        let larger = UnsafeMutablePointer<Entry>.allocate(capacity: capacity)
        larger.moveInitialize(from: self.base, count: self.used)
        self.base.deallocate()
        self.base = larger
        self.capacity = capacity
    }
}
