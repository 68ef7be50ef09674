import AppAttestTestDevice
import Testing

@testable import WebPushGateway

struct CBORValueTests {
    @Test("Values in their shortest form are decoded")
    func values() throws {
        let long = Array(repeating: UInt8(7), count: 300)
        let bytes = CBOREncoder.map([
            ("a", CBOREncoder.array([CBOREncoder.bytes(long), CBOREncoder.text("é")])), ("b", CBOREncoder.map([])),
            ("c", CBOREncoder.bytes(Array(long.prefix(24)))),
        ])
        let value = try CBORValue(bytes)
        #expect(value["a"]?.elements == [.bytes(long), .text("é")])
        #expect(value["b"] == .map([:]) && value["c"]?.bytes?.count == 24 && value["d"] == nil)
        #expect(value.text == nil && value.bytes == nil && value.elements == nil && value["a"]?["b"] == nil)
    }

    @Test("Every other encoding is refused")
    func refused() throws {
        let nested = { (depth: Int) in Array(repeating: UInt8(0x81), count: depth) + [0x40] }
        #expect(throws: Never.self) { try CBORValue(nested(4)) }
        let cases: [[UInt8]] = [
            [], [0x41], [0x00], [0x20], [0xC0, 0x40], [0xF4], [0xF9, 0, 0], [0x5F, 0x40, 0xFF], [0x9F, 0xFF],
            [0xBF, 0xFF],
            // Not the shortest form.
            [0x58, 0x01, 0x07], [0x58, 0x17] + Array(repeating: 0, count: 23),
            [0x59, 0x00, 0xFF] + Array(repeating: 0, count: 255),
            // Huge counts.
            [0x5B, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], [0x9A, 0xFF, 0xFF, 0xFF, 0xFF],
            [0xB9, 0xFF, 0xFF], [0x1C], [0x1F],
            // A key twice, a key that is no text, a text that is not UTF-8, bytes after the end.
            [0xA2, 0x61, 0x61, 0x40, 0x61, 0x61, 0x40], [0xA1, 0x41, 0x61, 0x40], [0x61, 0xFF], [0x40, 0x40],
            nested(5), Array(repeating: 0x81, count: 30_000),
            CBOREncoder.bytes(Array(repeating: 0, count: 40_000)),
        ]
        for (index, bytes) in cases.enumerated() {
            let error = #expect(throws: AppAttestError.self, "case \(index)") { try CBORValue(bytes) }
            #expect(error?.code == .malformed)
        }
    }
}
