/// Builds one HEADERS frame at a time, with CONTINUATION frames if it is long (RFC 9113, sections 6.2 and 6.10).
struct HeadersFrame: ~Copyable {
    private static let headSize = 9
    /// The smallest SETTINGS_MAX_FRAME_SIZE that a peer can have, so every peer accepts this payload.
    private static let largestPayload = 16_384
    private static let endHeaders: UInt8 = 0x4

    private var memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 1_024, alignment: 1)
    /// The length of the frames; 0 if none was built since the last one was taken.
    private var count = 0

    init() {}

    deinit { self.memory.deallocate() }

    /// Builds the frames.
    ///
    /// - Parameters:
    ///   - streamID: The stream.
    ///   - flags: The flags of the HEADERS frame.
    ///   - limit: The most bytes that `write` writes.
    ///   - write: Writes the header block, and returns its length.
    mutating func make(
        streamID: Int32,
        flags: UInt8,
        limit: Int,
        _ write: (UnsafeMutablePointer<UInt8>) -> Int
    ) {
        if self.memory.count < Self.headSize + limit {
            self.memory.deallocate()
            self.memory = .allocate(byteCount: Self.headSize + limit, alignment: 1)
        }
        guard let base = self.memory.baseAddress else { return }
        let length = write((base + Self.headSize).assumingMemoryBound(to: UInt8.self))
        self.count = Self.headSize + length
        if length > Self.largestPayload { return self.split(streamID, flags, length) }
        Self.writeHead(type: 1, flags: flags, streamID: streamID, length: length, to: base)
    }

    private mutating func split(_ streamID: Int32, _ flags: UInt8, _ length: Int) {
        let block = Array(self.memory[Self.headSize..<self.count])
        var frames: [UInt8] = []
        for start in stride(from: 0, to: length, by: Self.largestPayload) {
            let payload = block[start..<min(start + Self.largestPayload, length)]
            let head = Array<UInt8>(unsafeUninitializedCapacity: Self.headSize) { buffer, count in
                guard let base = buffer.baseAddress else { return }
                let isLast = payload.endIndex == length
                Self.writeHead(
                    type: start == 0 ? 1 : 9,
                    flags: (start == 0 ? flags & ~Self.endHeaders : 0) | (isLast ? Self.endHeaders : 0),
                    streamID: streamID,
                    length: payload.count,
                    to: base
                )
                count = Self.headSize
            }
            frames += head + payload
        }
        self.memory.deallocate()
        self.memory = .allocate(byteCount: frames.count, alignment: 1)
        self.memory.copyBytes(from: frames)
        self.count = frames.count
    }

    private static func writeHead(
        type: UInt8,
        flags: UInt8,
        streamID: Int32,
        length: Int,
        to base: UnsafeMutableRawPointer
    ) {
        base.storeBytes(of: (UInt32(truncatingIfNeeded: length) << 8 | UInt32(type)).bigEndian, as: UInt32.self)
        base.storeBytes(of: flags, toByteOffset: 4, as: UInt8.self)
        base.storeBytes(of: streamID.bigEndian, toByteOffset: 5, as: Int32.self)
    }

    /// Whether the bytes are one whole frame.
    static func isOneFrame(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.count >= Self.headSize
            && bytes.count - Self.headSize == Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2])
    }

    /// The frames, valid until the next ones are built; nil if none were built since the last call.
    mutating func take() -> UnsafeRawBufferPointer? {
        guard self.count > 0 else { return nil }
        defer { self.count = 0 }
        return UnsafeRawBufferPointer(rebasing: self.memory[..<self.count])
    }
}
