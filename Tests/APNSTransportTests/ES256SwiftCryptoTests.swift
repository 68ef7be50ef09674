#if Sealing
    import Crypto
    import Foundation
    import Testing

    @testable import APNSTransport

    /// Another library, swift-crypto, reads the keys and signatures that OpenSSL writes, and the other way round.
    struct ES256SwiftCryptoTests {
        @Test("Public keys and signatures match swift-crypto, also for private keys with leading zeros")
        func signatures() throws {
            var last = ES256KeyTests.bytes(ES256KeyTests.order)
            last[31] -= 1
            var numbers = [Array(repeating: 0, count: 31) + [1], last]
            for zeros in 0..<32 {
                let number = P256.Signing.PrivateKey().rawRepresentation
                numbers.append(Array(repeating: 0, count: zeros) + number.dropFirst(zeros))
            }
            for number in numbers where number.contains(where: { $0 != 0 }) {
                let key = try ES256PrivateKey(der: ES256KeyTests.sec1(number))
                let theirs = try P256.Signing.PrivateKey(rawRepresentation: number).publicKey
                #expect(key.publicKey.rawRepresentation == Array(theirs.rawRepresentation))
                for length in [0, 1, 130, 5_000] {
                    let message = (0..<length).map { UInt8(truncatingIfNeeded: $0) }
                    let signature = try key.signature(of: message)
                    let read = try P256.Signing.ECDSASignature(rawRepresentation: signature.rawRepresentation)
                    #expect(theirs.isValidSignature(read, for: message))
                    #expect(!theirs.isValidSignature(read, for: message + [0]))
                }
            }
        }

        @Test("swift-crypto's keys are read from PEM and DER, and its signatures are valid in both forms")
        func theirs() throws {
            for count in 0..<200 {
                let theirs = P256.Signing.PrivateKey()
                let read = try ES256PrivateKey(der: Array(theirs.derRepresentation))
                #expect(read.publicKey.rawRepresentation == Array(theirs.publicKey.rawRepresentation))
                let key = try ES256PublicKey(pem: theirs.publicKey.pemRepresentation)
                let message = [UInt8(truncatingIfNeeded: count)]
                let signature = try theirs.signature(for: message)
                let raw = try #require(ES256Signature(rawRepresentation: Array(signature.rawRepresentation)))
                #expect(try raw.der() == Array(signature.derRepresentation))
                #expect(try ES256Signature(der: Array(signature.derRepresentation)) == raw)
                #expect(key.isValid(raw, of: message))
                #expect(!key.isValid(raw, of: message + [0]))
            }
        }

        @Test("swift-crypto reads the PEM of a new key and derives the same public key")
        func ours() throws {
            for _ in 0..<50 {
                let key = try ES256PrivateKey()
                let theirs = try P256.Signing.PrivateKey(pemRepresentation: key.pem)
                #expect(Array(theirs.publicKey.rawRepresentation) == key.publicKey.rawRepresentation)
                let publicKey = try P256.Signing.PublicKey(pemRepresentation: key.publicKey.pem)
                #expect(Array(publicKey.rawRepresentation) == key.publicKey.rawRepresentation)
            }
        }

        @Test("Digests match swift-crypto")
        func digests() throws {
            for length in [0, 1, 55, 56, 63, 64, 65, 1_000, 300_000] {
                let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 31) }
                let theirs = SHA256.hash(data: bytes).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
                #expect(try SHA256Digest.hexadecimal(of: bytes) == theirs)
            }
        }
    }
#endif
