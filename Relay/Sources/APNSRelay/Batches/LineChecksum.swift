/// A checksum of the lines of a batch (FNV-1a, 64 bits), which shows whether a batch that is submitted again has the same
/// devices.
struct LineChecksum: Codable, Sendable, Hashable {
    private(set) var value: UInt64 = 0xCBF2_9CE4_8422_2325

    mutating func add(_ line: ArraySlice<UInt8>) {
        var value = self.value
        for byte in line { value = (value ^ UInt64(byte)) &* 0x100_0000_01B3 }
        self.value = (value ^ UInt64(UInt8(ascii: "\n"))) &* 0x100_0000_01B3
    }
}
