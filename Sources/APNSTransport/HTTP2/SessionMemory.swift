import CAPNSNghttp2

/// The memory allocator of one `nghttp2_session` and of the values of its requests. It keeps freed blocks by size and
/// reuses them, without the locking and merging of a general allocator. A request needs a handful of blocks, always in
/// the same few sizes.
///
/// Confined to the session's event loop. It keeps no further block of a size that has reached `keptBytes`, and frees
/// everything with the session.
final class SessionMemory {
    /// Blocks up to this size in bytes are kept. Larger ones are rare and are freed immediately.
    static let largestKept = step * (classCount - 1) + padding
    /// How many bytes are kept of each size: enough for the requests of a few batches.
    static let keptBytes = 32 * 1024
    private static let step = 16
    /// The system's allocator puts 8 bytes of its own before each allocation. With this padding, a block and our header
    /// fill the rest of such an allocation exactly.
    private static let padding = 8
    private static let classCount = 64
    /// The size of a block is stored before it, in a header long enough to keep the block aligned.
    private static let headerSize = 16

    /// The first free block of each size. Each free block begins with the address of the next.
    private let free: UnsafeMutablePointer<UnsafeMutableRawPointer?>
    /// The number of bytes in each list.
    private let kept: UnsafeMutablePointer<Int>

    init() {
        self.kept = .allocate(capacity: Self.classCount)
        self.kept.initialize(repeating: 0, count: Self.classCount)
        self.free = .allocate(capacity: Self.classCount)
        self.free.initialize(repeating: nil, count: Self.classCount)
    }

    deinit {
        for index in 0..<Self.classCount {
            var block = self.free[index]
            while let current = block {
                block = current.load(as: UnsafeMutableRawPointer?.self)
                systemFree(current - Self.headerSize)
            }
        }
        self.free.deallocate()
        self.kept.deallocate()
    }

    func allocate(_ size: Int) -> UnsafeMutableRawPointer? {
        guard size >= 0, size <= Int.max / 2 else { return nil }
        let index = (size + Self.step - Self.padding - 1) / Self.step
        if index < Self.classCount, let block = self.free[index] {
            self.free[index] = block.load(as: UnsafeMutableRawPointer?.self)
            self.kept[index] &-= index &* Self.step &+ Self.padding
            return block
        }
        let room = index < Self.classCount ? index * Self.step + Self.padding : size
        guard let base = malloc(room + Self.headerSize) else { return nil }
        base.storeBytes(of: room, as: Int.self)
        return base + Self.headerSize
    }

    func release(_ block: UnsafeMutableRawPointer?) {
        guard let block else { return }
        let room = Self.room(block)
        let index = room / Self.step
        guard room <= Self.largestKept, self.kept[index] < Self.keptBytes else {
            systemFree(block - Self.headerSize)
            return
        }
        self.kept[index] &+= room
        block.storeBytes(of: self.free[index], as: UnsafeMutableRawPointer?.self)
        self.free[index] = block
    }

    func allocateZeroed(_ count: Int, _ size: Int) -> UnsafeMutableRawPointer? {
        let (total, overflow) = count.multipliedReportingOverflow(by: size)
        guard !overflow, let block = self.allocate(total) else { return nil }
        memset(block, 0, total)
        return block
    }

    func reallocate(_ block: UnsafeMutableRawPointer?, _ size: Int) -> UnsafeMutableRawPointer? {
        guard let block else { return self.allocate(size) }
        let room = Self.room(block)
        if size <= room { return block }
        guard let larger = self.allocate(size) else { return nil }
        memcpy(larger, block, room)
        self.release(block)
        return larger
    }

    private static func room(_ block: UnsafeMutableRawPointer) -> Int {
        (block - self.headerSize).load(as: Int.self)
    }

    /// The functions that nghttp2 calls. nghttp2 keeps a copy of them, so this object must outlive the session.
    func withFunctions<Result>(_ body: (UnsafeMutablePointer<nghttp2_mem>) -> Result) -> Result {
        var functions = nghttp2_mem(
            mem_user_data: Unmanaged.passUnretained(self).toOpaque(),
            malloc: { size, context in SessionMemory.with(context) { $0.allocate(Int(clamping: size)) } },
            free: { block, context in
                _ = SessionMemory.with(context) { memory -> UnsafeMutableRawPointer? in
                    memory.release(block)
                    return nil
                }
            },
            calloc: { count, size, context in
                SessionMemory.with(context) { $0.allocateZeroed(Int(clamping: count), Int(clamping: size)) }
            },
            realloc: { block, size, context in
                SessionMemory.with(context) { $0.reallocate(block, Int(clamping: size)) }
            }
        )
        return withUnsafeMutablePointer(to: &functions, body)
    }

    @inline(__always)
    private static func with(
        _ context: UnsafeMutableRawPointer?,
        _ body: (SessionMemory) -> UnsafeMutableRawPointer?
    ) -> UnsafeMutableRawPointer? {
        guard let context else { return nil }
        return Unmanaged<SessionMemory>.fromOpaque(context)._withUnsafeGuaranteedRef(body)
    }
}

/// The C function `free`, which the property `free` above hides.
private func systemFree(_ block: UnsafeMutableRawPointer) { free(block) }
