import NIOCore

/// The open streams of one session: a slab whose index is what nghttp2 carries as the stream's user data.
struct StreamTable {
    /// How much of a response's body is kept, in bytes. APNs' bodies are far smaller.
    static let bodyLimit = 4096
    /// How much of a message's header fields is kept, in bytes.
    static let fieldLimit = 16384

    struct Entry {
        /// 0: the entry is free.
        var streamID: Int32 = 0
        var tag: UInt64 = 0
        /// Keeps the memory that nghttp2 was told not to copy, and the body, until the stream is closed.
        var request: HTTP2Request?
        var outgoingBody: [UInt8] = []
        var outgoingOffset = 0
        var isWritten = false
        /// The result was given; only nghttp2 still knows the stream.
        var isConcluded = false
        var hasFinalHeaders = false
        var isRemoteComplete = false
        /// The status of the header block that is being received.
        var pendingStatus = 0
        var status = 0
        var fields = FieldList()
        var body: [UInt8] = []
        var deadline = NIODeadline.distantFuture
    }

    private(set) var entries: ContiguousArray<Entry> = []
    private var free: [Int] = []
    private(set) var count = 0

    subscript(index: Int) -> Entry {
        _read { yield self.entries[index] }
        _modify { yield &self.entries[index] }
    }

    func contains(_ index: Int, streamID: Int32) -> Bool {
        index >= 0 && index < self.entries.count && self.entries[index].streamID == streamID
    }

    /// Finds a stream that nghttp2 no longer has user data for.
    func index(of streamID: Int32) -> Int? {
        self.entries.firstIndex { $0.streamID == streamID }
    }

    /// The same, when `hint` or the entry after it is probably right.
    func index(of streamID: Int32, hint: Int) -> Int? {
        if self.contains(hint, streamID: streamID) { return hint }
        if self.contains(hint + 1, streamID: streamID) { return hint + 1 }
        return self.index(of: streamID)
    }

    /// An entry for a new stream. The caller sets its `streamID`.
    mutating func allocate() -> Int {
        self.count += 1
        if let index = self.free.popLast() { return index }
        self.entries.append(Entry())
        return self.entries.count - 1
    }

    mutating func release(_ index: Int) {
        guard self.entries[index].streamID != 0 else { return }
        self.entries[index] = Entry()
        self.free.append(index)
        self.count -= 1
    }

    /// Gives back an entry that never got a stream id.
    mutating func discard(_ index: Int) {
        self.entries[index] = Entry()
        self.free.append(index)
        self.count -= 1
    }
}
