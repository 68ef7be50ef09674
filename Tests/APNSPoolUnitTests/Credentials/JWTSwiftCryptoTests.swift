#if Sealing
    import Crypto
    import Foundation
    import Testing

    @testable import APNSPool
    @testable import APNSPoolTestSupport

    /// Another library, swift-crypto, accepts the provider tokens that OpenSSL signs.
    struct JWTSwiftCryptoTests {
        @Test("swift-crypto accepts the signature of each token of a key file")
        func keyOfFile() async throws {
            let signer = try #require(
                try withFile("AuthKey_9UC9ZLQ8YW.p8", KeyTexts.p256.utf8) { path in
                    try APNSAuthentication.token(keyFile: path, teamID: "ABBM6U9RM5").makeSigner()
                }
            )
            let key = try P256.Signing.PrivateKey(pemRepresentation: KeyTexts.p256).publicKey
            // Many signatures: in some of them r or s begins with zero bytes, which reveals encoding errors.
            for time in 0..<300 {
                let parts = try await signer.jwt(issuedAt: 1_800_000_000 + Int64(time)).split(separator: ".")
                try #require(parts.count == 3)
                let signature = try P256.Signing.ECDSASignature(rawRepresentation: try JWTTests.decoded(parts[2]))
                #expect(key.isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8)))
            }
        }

        @Test("A swift-crypto key, passed as PEM text or DER, signs the tokens")
        func handedOver() throws {
            let key = P256.Signing.PrivateKey()
            let publicKey = Array(key.publicKey.rawRepresentation)
            let forms: [APNSAuthentication] = [
                .token(privateKeyPEM: key.pemRepresentation, keyID: "9UC9ZLQ8YW", teamID: "ABBM6U9RM5"),
                .token(
                    privateKeyBytes: Array(key.derRepresentation),
                    keyID: "9UC9ZLQ8YW",
                    teamID: "ABBM6U9RM5"
                ),
            ]
            for form in forms { #expect(try form.makeSigner()?.publicKey == publicKey) }
        }
    }
#endif
