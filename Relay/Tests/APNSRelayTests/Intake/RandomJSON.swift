import PushQueueConformance

/// Random JSON texts, and random damage to them.
enum RandomJSON {
    private static let strings = [
        "", "a", "aps", "é", "😀", #"\n"#, #"\u00e9"#, #"\ud83d\ude00"#, #"\""#, #"\\"#, "token", "payload", " ",
    ]
    private static let numbers = ["0", "-1", "10", "1795440000", "3.25", "-0.5", "1234567890123"]

    static func value(depth: Int, using random: inout SeededRandom) -> String {
        let blank = Bool.random(using: &random) ? "" : " "
        switch Int.random(in: 0..<(depth > 0 ? 8 : 5), using: &random) {
        case 0: return "\(blank)null"
        case 1: return "true\(blank)"
        case 2: return "false"
        case 3: return self.numbers[Int.random(in: 0..<self.numbers.count, using: &random)]
        case 4: return "\"\(self.string(using: &random))\""
        case 5: return "[\(blank)\(self.list(depth, using: &random) { $0 })]"
        default:
            return "{\(self.list(depth, using: &random) { "\"\($1)\"\(blank):\($0)" })\(blank)}"
        }
    }

    static func mutate(_ bytes: inout [UInt8], using random: inout SeededRandom) {
        let interesting =
            Array(#"{}[]",:\/0159-+.eEtfnu"#.utf8) + [0x09, 0x0A, 0x1F, 0x7F, 0x80, 0xC3, 0xED, 0xF0, 0xFF]
        let byte =
            Bool.random(using: &random)
            ? interesting[Int.random(in: 0..<interesting.count, using: &random)]
            : UInt8.random(in: 0...255, using: &random)
        guard !bytes.isEmpty else { return bytes.append(byte) }
        let index = Int.random(in: 0..<bytes.count, using: &random)
        switch Int.random(in: 0..<4, using: &random) {
        case 0: bytes[index] = byte
        case 1: bytes.insert(byte, at: index)
        case 2: bytes.remove(at: index)
        default: bytes.removeLast(Int.random(in: 1...bytes.count - index, using: &random))
        }
    }

    private static func string(using random: inout SeededRandom) -> String {
        (0..<Int.random(in: 0..<4, using: &random))
            .map { _ in self.strings[Int.random(in: 0..<self.strings.count, using: &random)] }
            .joined()
    }

    private static func list(
        _ depth: Int,
        using random: inout SeededRandom,
        _ element: (String, String) -> String
    ) -> String {
        (0..<Int.random(in: 0..<4, using: &random))
            .map { index in
                element(self.value(depth: depth - 1, using: &random), "k\(index)\(self.string(using: &random))")
            }
            .joined(separator: ",")
    }

    private static func list(
        _ depth: Int,
        using random: inout SeededRandom,
        _ element: (String) -> String
    ) -> String {
        self.list(depth, using: &random) { value, _ in element(value) }
    }
}
