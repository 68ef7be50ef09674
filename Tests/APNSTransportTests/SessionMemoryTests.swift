import TestSupport
import Testing

@testable import APNSTransport

/// The allocator for nghttp2: no block is handed out twice, and each block keeps its bytes.
struct SessionMemoryTests {
    private struct Block {
        var address: UnsafeMutableRawPointer
        var size: Int
        var mark: UInt8

        func fill() { address.initializeMemory(as: UInt8.self, repeating: mark, count: size) }

        var isWhole: Bool {
            UnsafeRawBufferPointer(start: address, count: size).allSatisfy { $0 == mark }
        }
    }

    @Test(arguments: PropertyRun(commands: 4_000, runs: 2).seeds)
    func blocksKeepTheirBytes(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let memory = SessionMemory()
        var blocks: [Block] = []
        for step in 0..<2000 {
            let size = Int.random(in: 0...(Bool.random(using: &random) ? 300 : 4000), using: &random)
            let mark = UInt8(truncatingIfNeeded: step)
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<4:
                let address = try #require(memory.allocate(size))
                #expect(Int(bitPattern: address) % 16 == 0)
                blocks.append(Block(address: address, size: size, mark: mark))
                blocks.last?.fill()
            case 4:
                let address = try #require(memory.allocateZeroed(1, size))
                blocks.append(Block(address: address, size: size, mark: 0))
            case 5..<7:
                guard let index = blocks.indices.randomElement(using: &random) else { continue }
                let old = blocks[index]
                blocks[index].address = try #require(memory.reallocate(old.address, size))
                blocks[index].size = min(size, old.size)
                #expect(blocks[index].isWhole, "SEED=\(seed) replays this")
                blocks[index].size = size
                blocks[index].fill()
            default:
                guard let index = blocks.indices.randomElement(using: &random) else { continue }
                #expect(blocks[index].isWhole, "SEED=\(seed) replays this")
                memory.release(blocks.remove(at: index).address)
            }
        }
        #expect(blocks.allSatisfy { $0.isWhole }, "SEED=\(seed) replays this")
        for block in blocks { memory.release(block.address) }
    }

    @Test func impossibleAllocationsReturnNil() {
        let memory = SessionMemory()
        #expect(memory.allocate(.max) == nil)
        #expect(memory.allocate(-1) == nil)
        #expect(memory.allocateZeroed(.max, 2) == nil)
        memory.release(nil)
    }
}

struct RefCountTableTests {
    private final class Value {}

    @Test func aValueLivesUntilItsLastRelease() {
        var table = RefCountTable<Value>()
        weak var watched: Value?
        let entry: Int32
        do {
            let value = Value()
            watched = value
            entry = table.insert(value)
        }
        table.retain(entry: entry)
        let isFirstLast = table.release(entry: entry)
        #expect(!isFirstLast && watched != nil && table.count == 1)
        let isSecondLast = table.release(entry: entry)
        #expect(isSecondLast && watched == nil && table.count == 0)
        // The next insert reuses the entry.
        let next = table.insert(Value())
        #expect(next == entry)
        let isNoneLast = table.release(entry: RefCountTable<Value>.none)
        #expect(!isNoneLast)
        #expect(table[RefCountTable<Value>.none] == nil)
    }
}
