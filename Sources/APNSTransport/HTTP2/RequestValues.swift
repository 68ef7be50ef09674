/// The values of a request's variable fields. The session keeps them from the submission of the request until its
/// HEADERS are written.
struct RequestValues {
    private static let headSize = MemoryLayout<SIMD8<UInt16>>.size
    private let memory: UnsafeMutableRawPointer

    /// Copies the values; nil without memory.
    ///
    /// - Parameters:
    ///   - values: At least as many bytes as the sum of `lengths`.
    ///   - lengths: The length of each value.
    ///   - memory: Where the copy is allocated. `release` returns it.
    init?(_ values: UnsafeBufferPointer<UInt8>, _ lengths: SIMD8<UInt16>, in memory: SessionMemory) {
        guard let block = memory.allocate(Self.headSize + values.count) else { return nil }
        block.storeBytes(of: lengths, as: SIMD8<UInt16>.self)
        if let base = values.baseAddress {
            (block + Self.headSize).copyMemory(from: base, byteCount: values.count)
        }
        self.memory = block
    }

    /// The length of each value in bytes. 0 means that the field is absent.
    var lengths: SIMD8<UInt16> { self.memory.loadUnaligned(as: SIMD8<UInt16>.self) }

    /// The values, one after the other.
    var start: UnsafePointer<UInt8> {
        UnsafePointer((self.memory + Self.headSize).assumingMemoryBound(to: UInt8.self))
    }

    func release(to memory: SessionMemory) { memory.release(self.memory) }
}
