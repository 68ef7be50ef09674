import TestSupport
import Testing

@testable import APNSTransport

/// Keys and signatures by OpenSSL. `ES256SwiftCryptoTests` compares them with another library.
struct ES256KeyTests {
    /// FIPS 186-4, D.1.2.3.
    static let order = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"
    /// RFC 6979, appendix A.2.5.
    static let publishedNumber = bytes("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721")
    static let publishedPublicKey = bytes(
        "60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6"
            + "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299"
    )

    static func bytes(_ hexadecimal: String) -> [UInt8] {
        stride(from: 0, to: hexadecimal.count, by: 2).compactMap { offset in
            UInt8(hexadecimal.dropFirst(offset).prefix(2), radix: 16)
        }
    }

    /// A key in the form of RFC 5915, without its public half.
    static func sec1(_ number: [UInt8]) -> [UInt8] {
        func field(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
            let count = content.count
            return [tag, 0x83, UInt8(count >> 16 & 0xFF), UInt8(count >> 8 & 0xFF), UInt8(count & 0xFF)] + content
        }
        let curve: [UInt8] = [0xA0, 0x0A, 0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07]
        return field(0x30, [0x02, 0x01, 0x01] + field(0x04, number) + curve)
    }

    @Test("The key of RFC 6979, appendix A.2.5, has the published public key")
    func published() throws {
        let key = try ES256PrivateKey(der: Self.sec1(Self.publishedNumber))
        #expect(key.publicKey.rawRepresentation == Self.publishedPublicKey)
    }

    @Test("The published signatures of RFC 6979, appendix A.2.5, are valid for their messages only")
    func publishedSignatures() throws {
        let key = try ES256PublicKey(rawRepresentation: Self.publishedPublicKey)
        let signatures = [
            "sample": "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"
                + "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
            "test": "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367"
                + "019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083",
        ]
        for (message, hexadecimal) in signatures {
            let raw = Self.bytes(hexadecimal)
            let signature = try #require(ES256Signature(rawRepresentation: raw))
            for other in signatures.keys {
                #expect(key.isValid(signature, of: Array(other.utf8)) == (other == message))
            }
            for position in raw.indices {
                var changed = raw
                changed[position] ^= 1
                let forged = try #require(ES256Signature(rawRepresentation: changed))
                #expect(!key.isValid(forged, of: Array(message.utf8)), "byte \(position)")
            }
        }
        #expect(!key.isValid(try #require(ES256Signature(rawRepresentation: Array(repeating: 0, count: 64))), of: []))
        #expect(!key.isValid(try #require(ES256Signature(rawRepresentation: Array(repeating: 255, count: 64))), of: []))
    }

    @Test("A signature is valid for its key and its message only, whatever the message's length")
    func signatures() throws {
        let key = try ES256PrivateKey()
        let other = try ES256PrivateKey().publicKey
        for length in [0, 1, 130, 5_000] {
            let message = (0..<length).map { UInt8(truncatingIfNeeded: $0) }
            let signature = try key.signature(of: message)
            #expect(key.publicKey.isValid(signature, of: message))
            #expect(!key.publicKey.isValid(signature, of: message + [0]))
            #expect(!other.isValid(signature, of: message))
        }
    }

    @Test("A number outside the curve's order is rejected as a private key")
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
            #expect(throws: ES256KeyFault.self, "\(number.count) bytes") {
                try ES256PrivateKey(der: Self.sec1(number))
            }
        }
    }

    @Test("Coordinates that are not a point on the curve are rejected as a public key")
    func noPoint() throws {
        var changed = Self.publishedPublicKey
        changed[63] ^= 1
        let wrong = [
            [], changed, Array(repeating: 0, count: 64), Self.publishedPublicKey + [0], Array(changed.dropLast()),
        ]
        for bytes in wrong {
            #expect(throws: OpenSSLFault.self) { try ES256PublicKey(rawRepresentation: bytes) }
        }
    }

    @Test("Keys are read from the PEM text that they write")
    func texts() throws {
        for _ in 0..<20 {
            let key = try ES256PrivateKey()
            let lines = key.pem.split(separator: "\n")
            #expect(lines.first == "-----BEGIN PRIVATE KEY-----" && lines.last == "-----END PRIVATE KEY-----")
            let publicKey = try ES256PublicKey(pem: key.publicKey.pem)
            #expect(publicKey.rawRepresentation == key.publicKey.rawRepresentation)
            let message: [UInt8] = [1, 2, 3]
            #expect(publicKey.isValid(try key.signature(of: message), of: message))
        }
    }

    @Test("Text other than a P-256 public key is rejected with a matching error")
    func noPublicKey() throws {
        for text in ["", "hello", try ES256PrivateKey().pem] {
            let fault = #expect(throws: ES256KeyFault.self) { try ES256PublicKey(pem: text) }
            guard case .unreadable = fault else {
                Issue.record("\(String(describing: fault))")
                continue
            }
        }
        let ed25519 = """
            -----BEGIN PUBLIC KEY-----
            MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
            -----END PUBLIC KEY-----

            """
        #expect(throws: ES256KeyFault.wrongAlgorithm("ED25519")) { try ES256PublicKey(pem: ed25519) }
    }

    @Test("A signature keeps its numbers in its raw and its DER form")
    func forms() throws {
        let key = try ES256PrivateKey()
        // Enough for some numbers that are a byte shorter. Half of the numbers have a leading zero byte in DER.
        for count in 0..<600 {
            let signature = try key.signature(of: [UInt8(truncatingIfNeeded: count)])
            #expect(signature.rawRepresentation.count == ES256Signature.length)
            #expect(try ES256Signature(der: try signature.der()) == signature)
        }
        let der: [UInt8] = [0x30, 6, 2, 1, 1, 2, 1, 2]
        let small = try ES256Signature(der: der)
        #expect(
            small.rawRepresentation
                == Array(repeating: 0, count: 31) + [1] + Array(repeating: 0, count: 31) + [2]
        )
        #expect(try small.der() == der)
    }

    @Test("Malformed bytes are rejected as a signature")
    func noSignatures() throws {
        let good = try ES256PrivateKey().signature(of: [1]).der()
        let long = [0x02, 33, 1] + [UInt8](repeating: 0, count: 32)
        var wrong = good.indices.map { Array(good.prefix($0)) }
        wrong += [good + [0], [0x30, 0], [0x30, 3, 2, 1, 1], [0x31, 6, 2, 1, 1, 2, 1, 2], [0x04, 1, 1]]
        wrong += [[0x30, 38] + long + [2, 1, 1], [0x30, 38, 2, 1, 1] + long]
        for bytes in wrong {
            #expect(throws: OpenSSLFault.self, "\(bytes)") { try ES256Signature(der: bytes) }
        }
        for position in good.indices {
            for value in UInt8.min...UInt8.max {
                var changed = good
                changed[position] = value
                let read = try? ES256Signature(der: changed)
                #expect(read == nil || read?.rawRepresentation.count == 64)
            }
        }
        #expect(ES256Signature(rawRepresentation: Array(repeating: 1, count: 63)) == nil)
        #expect(ES256Signature(rawRepresentation: Array(repeating: 1, count: 65)) == nil)
    }

    @Test("One key signs on many threads at once")
    func threads() async throws {
        let key = try ES256PrivateKey()
        let valid = await withTaskGroup(of: Int.self) { group in
            for worker in 0..<8 {
                group.addTask {
                    (0..<100).count { number in
                        let message = [UInt8(worker), UInt8(number)]
                        guard let signature = try? key.signature(of: message) else { return false }
                        return key.publicKey.isValid(signature, of: message)
                    }
                }
            }
            return await group.reduce(0, +)
        }
        #expect(valid == 800)
    }

    @Test("Digests match the examples of FIPS 180-4, in one portion and in several")
    func digests() throws {
        let examples = [
            "": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq":
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ]
        for (text, expected) in examples {
            let bytes = Array(text.utf8)
            #expect(try SHA256Digest.hexadecimal(of: bytes) == expected)
            for cut in 0...bytes.count {
                let digest = try SHA256Digest()
                try bytes[..<cut].withUnsafeBytes { try digest.update($0) }
                try bytes[cut...].withUnsafeBytes { try digest.update($0) }
                #expect(try digest.finish() == expected)
            }
        }
    }
}
