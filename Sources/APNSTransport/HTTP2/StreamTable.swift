import NIOCore

/// The open streams of one session: a slab. nghttp2 stores the index of a stream's entry, plus 1, as its user data.
///
/// Entries are in memory that the table manages itself, because each push accesses an entry about ten times: this
/// avoids exclusivity checks and copies of an array. Addresses are used immediately and never stored.
final class StreamTable {
    /// How many bytes of a response's body are kept, unless the session is configured otherwise.
    static let bodyLimit = 4096
    /// How many bytes of a message's header fields are kept.
    static let fieldLimit = 16384
    /// The maximum size of one decompressed header block, in bytes.
    static let headerBlockLimit = 65536
    /// How many bytes are kept of all incomplete responses of a session together.
    static let keptLimit = 1 << 20

    /// The fields are ordered to leave few gaps, because there is one entry per open stream.
    struct Entry {
        /// 0 means that the entry is free.
        var streamID: Int32 = 0
        /// The fields that the request shares with others, until HEADERS are written: an entry of the session's
        /// `sharedFields`.
        var sharedFields: Int32 = -1
        /// The other fields, until HEADERS are written.
        var values: RequestValues?
        var tag: StreamTag = 0
        /// The body to send: an entry of the session's `bodies`.
        var outgoing: Int32 = -1
        private var bodyCount: Int32 = 0
        private var bodyOffset: Int32 = 0
        /// The status in the header block being received.
        var pendingStatus: UInt16 = 0
        var status: UInt16 = 0
        /// The value that the response may repeat.
        var echo = EchoedValue()
        var isWritten = false
        /// The result has been given. Only nghttp2 still uses the stream.
        var isConcluded = false
        var hasFinalHeaders = false
        var isRemoteComplete = false
        /// The fields and the body received so far, as far as they are kept.
        var fields = FieldList()
        var body: [UInt8] = []
        var deadline = NIODeadline.distantFuture

        /// Limited to 2 GiB, which no body of a push or response reaches.
        var outgoingCount: Int {
            get { Int(self.bodyCount) }
            set { self.bodyCount = Int32(clamping: newValue) }
        }
        var outgoingOffset: Int {
            get { Int(self.bodyOffset) }
            set { self.bodyOffset = Int32(clamping: newValue) }
        }

        /// Prepares the entry for the next stream.
        mutating func reset() {
            self.streamID = 0
            self.tag = 0
            self.sharedFields = -1
            self.values = nil
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
    /// The number of entries that have been used at least once. Memory beyond them is not initialized.
    private var used = 0
    // Unchecked: no access re-enters this property.
    @exclusivity(unchecked) private var free: [Int] = []
    /// The probable index of the stream with a tag, by a hash of the tag.
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

    /// - Parameter index: An index that `allocate()` returned.
    subscript(index: Int) -> Entry {
        unsafeAddress { UnsafePointer(self.base + index) }
        unsafeMutableAddress { self.base + index }
    }

    func contains(_ index: Int, streamID: Int32) -> Bool {
        index >= 0 && index < self.used && self.base[index].streamID == streamID
    }

    func remember(_ index: Int, tag: StreamTag) {
        self.hints[Self.hint(tag)] = Int32(truncatingIfNeeded: index)
    }

    /// The open stream with this tag.
    func index(ofTag tag: StreamTag) -> Int? {
        func isIt(_ index: Int) -> Bool {
            self.base[index].streamID != 0 && self.base[index].tag == tag && !self.base[index].isConcluded
        }
        let hint = Int(self.hints[Self.hint(tag)])
        if hint < self.used, isIt(hint) { return hint }
        return self.indices.first(where: isIt)
    }

    /// A multiplicative hash of ten bits (Knuth, The Art of Computer Programming, section 6.4).
    private static func hint(_ tag: StreamTag) -> Int {
        Int(truncatingIfNeeded: (tag.rawValue &* 0x9E37_79B9_7F4A_7C15) >> 54)
    }

    /// Finds a stream for which nghttp2 no longer has user data. Searches all entries.
    func index(of streamID: Int32) -> Int? {
        self.indices.first { self.base[$0].streamID == streamID }
    }

    /// Finds a stream, trying `hint` and the entry after it first.
    func index(of streamID: Int32, hint: Int) -> Int? {
        if self.contains(hint, streamID: streamID) { return hint }
        if self.contains(hint + 1, streamID: streamID) { return hint + 1 }
        return self.index(of: streamID)
    }

    /// Returns the index of an entry for a new stream. The caller sets its `streamID`.
    func allocate() -> Int {
        self.count += 1
        if let index = self.free.popLast() { return index }
        if self.used == self.capacity { self.grow() }
        (self.base + self.used).initialize(to: Entry())
        self.used += 1
        return self.used - 1
    }

    /// Frees an entry. The session must release the values that the entry refers to.
    func discard(_ index: Int) {
        self.base[index].reset()
        self.free.append(index)
        self.count -= 1
    }

    private func grow() {
        // Doubling a large table would leave much of it unused: APNs allows 1,000 streams.
        let capacity = self.capacity + min(self.capacity, 128)
        let larger = UnsafeMutablePointer<Entry>.allocate(capacity: capacity)
        larger.moveInitialize(from: self.base, count: self.used)
        self.base.deallocate()
        self.base = larger
        self.capacity = capacity
    }
}
