/// An HTTP/2 frame as bytes (RFC 9113, section 4.1), valid or not.
public struct RawFrame: Sendable, Hashable {
    /// The stream of a frame.
    public enum Stream: Sendable, Hashable {
        /// The stream that `bytes(requestStreamID:)` gets.
        case request
        /// This stream id; 0 is the connection.
        case number(UInt32)
    }

    /// The frame's type.
    public var type: UInt8
    /// Its flags.
    public var flags: UInt8
    /// Its stream.
    public var stream: Stream
    /// The bytes after the frame's nine-byte header.
    public var payload: [UInt8]
    /// The length in the frame's header; nil for the actual length.
    public var claimedLength: UInt32?

    /// - Parameters:
    ///   - type: the frame's type.
    ///   - flags: its flags.
    ///   - stream: its stream.
    ///   - payload: the bytes after the header.
    ///   - claimedLength: the length in the header; nil for the actual length. Only the lowest 24 bits are sent.
    public init(
        type: UInt8,
        flags: UInt8 = 0,
        stream: Stream = .number(0),
        payload: [UInt8] = [],
        claimedLength: UInt32? = nil
    ) {
        self.type = type
        self.flags = flags
        self.stream = stream
        self.payload = payload
        self.claimedLength = claimedLength
    }

    /// - Parameter requestStreamID: the stream of a frame whose `stream` is `request`.
    public func bytes(requestStreamID: Int32) -> [UInt8] {
        let number: UInt32 =
            switch self.stream {
            case .request: UInt32(max(requestStreamID, 0))
            case .number(let number): number
            }
        let length = self.claimedLength ?? UInt32(clamping: self.payload.count)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(9 + self.payload.count)
        for shift in [16, 8, 0] as [UInt32] { bytes.append(UInt8(truncatingIfNeeded: length >> shift)) }
        bytes.append(self.type)
        bytes.append(self.flags)
        for shift in [24, 16, 8, 0] as [UInt32] { bytes.append(UInt8(truncatingIfNeeded: number >> shift)) }
        return bytes + self.payload
    }
}
