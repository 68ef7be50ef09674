#if Sealing
    import Crypto
    import Foundation
    import Testing

    @testable import APNSSealing

    /// The published vectors, checked with the functions that sealing and opening use; and vectors of the whole form,
    /// made by another implementation (Python's `cryptography`, which is OpenSSL).
    struct VectorTests {
        /// RFC 8439 §2.8.2.
        @Test func chaCha20Poly1305() throws {
            let plaintext = Array(
                "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it."
                    .utf8
            )
            let key = SymmetricKey(data: (0x80...0x9F).map { UInt8($0) })
            let associatedData = hexadecimal("50515253c0c1c2c3c4c5c6c7")
            let nonce = hexadecimal("070000004041424344454647")
            let ciphertext = """
                d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6\
                3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36\
                92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc\
                3ff4def08e4b7a9de576d26586cec64b6116
                """
            let tag = "1ae10b594f09e26a7e902ecbd0600691"

            let sealed = try Primitives.seal(
                plaintext,
                key: key,
                nonce: Primitives.nonce(nonce),
                authenticating: associatedData
            )
            #expect(text(Array(sealed)) == text(nonce) + ciphertext + tag)

            let combined = hexadecimal(text(nonce) + ciphertext + tag)
            let opened = try Primitives.open(combined[...], key: key, authenticating: associatedData)
            #expect(Array(opened) == plaintext)
        }

        /// RFC 7748 §6.1.
        @Test func x25519() throws {
            for (own, ownPublic, other) in [
                (Golden.alice, Golden.alicePublic, Golden.bobPublic),
                (Golden.bob, Golden.bobPublic, Golden.alicePublic),
            ] {
                let privateKey = try Curve25519.KeyAgreement.PrivateKey(rawRepresentation: hexadecimal(own))
                let secret = try Primitives.agree(privateKey, with: hexadecimal(other))
                #expect(text(secret.withUnsafeBytes { Array($0) }) == Golden.shared)
                let pair = try SealingKeyPair(rawRepresentation: hexadecimal(own))
                #expect(text(pair.publicKey.rawRepresentation) == ownPublic)
                #expect(text(pair.rawRepresentation) == own)
            }
        }

        /// RFC 5869, A.1 and A.3 (without salt and info).
        @Test func hkdf() {
            let secret = SymmetricKey(data: [UInt8](repeating: 0x0B, count: 22))
            let first = Primitives.derive(
                secret,
                salt: hexadecimal("000102030405060708090a0b0c"),
                info: hexadecimal("f0f1f2f3f4f5f6f7f8f9"),
                count: 42
            )
            #expect(
                text(first.withUnsafeBytes { Array($0) })
                    == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
            )
            let third = Primitives.derive(secret, salt: [], info: [], count: 42)
            #expect(
                text(third.withUnsafeBytes { Array($0) })
                    == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"
            )
        }

        @Test func agreementMatchesTheDocumentedVector() throws {
            let device = try SealingKeyPair(rawRepresentation: hexadecimal(Golden.alice))
            let server = try SealingKeyPair(rawRepresentation: hexadecimal(Golden.bob))
            let onDevice = try device.agree(with: server.publicKey, as: .device, context: Golden.context)
            let onServer = try server.agree(with: device.publicKey, as: .server, context: Golden.context)
            #expect(text(onDevice.rawRepresentation) == Golden.key)
            #expect(onDevice.id.description == Golden.keyID)
            #expect(onServer == onDevice)
            let bare = try device.agree(with: server.publicKey, as: .device, context: "")
            #expect(text(bare.rawRepresentation) == Golden.keyWithoutContext)
        }

        @Test func layoutMatchesTheDocumentedVector() throws {
            let id = try #require(UInt64(Golden.keyID, radix: 16))
            let key = try SealingKey(id: SealingKeyID(rawValue: id), rawRepresentation: hexadecimal(Golden.key))
            let time = Milliseconds(count: Golden.milliseconds)
            let sealer = PayloadSealer(key: key, size: try SealedSize(contentLimit: Golden.contentLimit))
            let sealed = try sealer.seal(
                bytes: Array(Golden.content.utf8),
                at: time.date,
                nonce: Primitives.nonce(hexadecimal(Golden.nonce))
            )
            #expect(sealed.text == Golden.sealed)
            #expect(sealed.keyID == key.id)

            let opened = try PayloadOpener(key: key).open(SealedPayload(text: Golden.sealed))
            #expect(opened.text == Golden.content)
            #expect(opened.time == time)
            #expect(opened.keyID == key.id)
            #expect(opened.id.bytes == hexadecimal(Golden.nonce))
        }
    }
#endif
