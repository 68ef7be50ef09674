#if Sealing
    import APNSModel
    import Foundation

    @testable import APNSSealing

    /// Bytes of hexadecimal text.
    func hexadecimal(_ text: String) -> [UInt8] {
        let digits = text.compactMap(\.hexDigitValue)
        return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] * 16 + digits[$0 + 1]) }
    }

    func text(_ bytes: [UInt8]) -> String {
        bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    /// The `SealingError` that `body` throws, if any.
    func sealingError<Result>(_ body: () throws -> Result) -> SealingError? {
        do {
            _ = try body()
            return nil
        } catch {
            return error as? SealingError
        }
    }

    /// The key of the golden vectors.
    enum Golden {
        static let alice = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"
        static let alicePublic = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
        static let bob = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"
        static let bobPublic = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
        static let shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
        static let context = "com.grasscove.Fern/user/4711"
        static let key = "450e9ccc998f1e1768dd6241ff25547a3a2ed5954f5ea35c0819319d315646cb"
        static let keyWithoutContext = "4d3510bb29907a5731ac9b34677d2105a750b29ad429b6927f31165908342017"
        static let keyID = "d25723e75e10340c"
        static let content = "At eight?"
        static let milliseconds: Int64 = 1_900_000_000_123
        static let nonce = "404142434445464748494a4b"
        static let contentLimit = 32
        static let sealed =
            "AdJXI-deEDQMQEFCQ0RFRkdISUpLAsBIwTaoqkf8d2xEVyOI6Bm7bm1ZY3_BmqRp3MUsb4PoGknLhH_Gcb9JnDHyxn4ynwFvByXkV5I"
    }

    extension Date {
        /// The time at which all tests begin.
        static let start = Date(timeIntervalSince1970: 1_800_000_000)
    }

    extension OpenedMessage {
        var text: String { String(decoding: content, as: UTF8.self) }
    }
#endif
