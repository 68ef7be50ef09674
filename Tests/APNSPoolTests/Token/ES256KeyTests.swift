import Crypto
import Foundation
import HTTP2Wire
import Testing

@testable import APNSPool

/// What OpenSSL signs, swift-crypto checks.
@Suite("ES256 keys", .timeLimit(.minutes(1)))
struct ES256KeyTests {
    /// FIPS 186-4, D.1.2.3.
    static let order = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"

    static func bytes(_ hexadecimal: String) -> [UInt8] {
        stride(from: 0, to: hexadecimal.count, by: 2).compactMap { offset in
            UInt8(hexadecimal.dropFirst(offset).prefix(2), radix: 16)
        }
    }

    @Test("The key of RFC 6979, appendix A.2.5, has the public key that stands there")
    func published() throws {
        let key = try ES256Key(number: Self.bytes("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721"))
        #expect(
            key.publicKey
                == Self.bytes(
                    "60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6"
                        + "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299"
                )
        )
    }

    @Test("Public keys and signatures are those of swift-crypto, whatever zeros the numbers begin with")
    func signatures() throws {
        var last = Self.bytes(Self.order)
        last[31] -= 1
        var numbers = [Array(repeating: 0, count: 31) + [1], last]
        for zeros in 0..<32 {
            let number = P256.Signing.PrivateKey().rawRepresentation
            numbers.append(Array(repeating: 0, count: zeros) + number.dropFirst(zeros))
        }
        for number in numbers where number.contains(where: { $0 != 0 }) {
            let key = try ES256Key(number: number)
            let theirs = try P256.Signing.PrivateKey(rawRepresentation: number).publicKey
            #expect(key.publicKey == Array(theirs.rawRepresentation))
            for length in [0, 1, 130, 5_000] {
                let message = (0..<length).map { UInt8(truncatingIfNeeded: $0) }
                let signature = try key.signature(of: message)
                #expect(signature.count == ES256Key.signatureLength)
                let read = try P256.Signing.ECDSASignature(rawRepresentation: signature)
                #expect(theirs.isValidSignature(read, for: message))
                #expect(!theirs.isValidSignature(read, for: message + [0]))
            }
        }
    }

    @Test("No key: nothing, zero, the order of the curve, more than that, far more")
    func outside() {
        let order = Self.bytes(Self.order)
        var next = order
        next[31] += 1
        let wrong = [
            [], [0], Array(repeating: 0, count: 32), order, next, Array(repeating: 0xFF, count: 32),
            [1] + Array(repeating: 0, count: 32), Array(repeating: 1, count: 1_000),
            Array(repeating: 1, count: 100_000),
        ]
        for number in wrong {
            #expect(throws: ES256Key.Fault.self, "\(number.count) bytes") { try ES256Key(number: number) }
        }
    }

    @Test("A signature in DER becomes 64 bytes")
    func forms() throws {
        let key = P256.Signing.PrivateKey()
        // Enough that some numbers are a byte shorter, and half of them have a zero before them.
        for count in 0..<600 {
            let signature = try key.signature(for: [UInt8(truncatingIfNeeded: count)])
            let raw = try ES256Key.signature(inDER: Array(signature.derRepresentation))
            #expect(raw == Array(signature.rawRepresentation))
        }
        #expect(
            try ES256Key.signature(inDER: [0x30, 6, 2, 1, 1, 2, 1, 2])
                == Array(repeating: 0, count: 31) + [1] + Array(repeating: 0, count: 31) + [2]
        )
    }

    @Test("Other bytes are no signature")
    func noSignatures() throws {
        let good = Array(try P256.Signing.PrivateKey().signature(for: [1]).derRepresentation)
        let long = [0x02, 33, 1] + [UInt8](repeating: 0, count: 32)
        var wrong = good.indices.map { Array(good.prefix($0)) }
        wrong += [good + [0], [0x30, 0], [0x30, 3, 2, 1, 1], [0x31, 6, 2, 1, 1, 2, 1, 2], [0x04, 1, 1]]
        wrong += [[0x30, 38] + long + [2, 1, 1], [0x30, 38, 2, 1, 1] + long]
        for bytes in wrong {
            #expect(throws: ES256Key.Fault.self, "\(bytes)") { try ES256Key.signature(inDER: bytes) }
        }
        for position in good.indices {
            for value in UInt8.min...UInt8.max {
                var changed = good
                changed[position] = value
                let raw = try? ES256Key.signature(inDER: changed)
                #expect(raw == nil || raw?.count == 64)
            }
        }
    }

    @Test("One key signs in many threads at once")
    func threads() async throws {
        let key = try ES256Key(P256.Signing.PrivateKey())
        let theirs = try P256.Signing.PublicKey(rawRepresentation: key.publicKey)
        let valid = await withTaskGroup(of: Int.self) { group in
            for worker in 0..<8 {
                group.addTask {
                    (0..<100).count { number in
                        let message = [UInt8(worker), UInt8(number)]
                        guard let raw = try? key.signature(of: message),
                            let signature = try? P256.Signing.ECDSASignature(rawRepresentation: raw)
                        else { return false }
                        return theirs.isValidSignature(signature, for: message)
                    }
                }
            }
            return await group.reduce(0, +)
        }
        #expect(valid == 800)
    }
}
