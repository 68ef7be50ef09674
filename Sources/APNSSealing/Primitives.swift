#if canImport(CryptoKit) || Sealing
    #if canImport(CryptoKit)
        import CryptoKit
    #else
        import Crypto
    #endif
    #if canImport(FoundationEssentials)
        import FoundationEssentials
    #else
        import Foundation
    #endif

    /// The cryptography that everything here goes through, and nothing else does: ChaCha20-Poly1305 (RFC 8439), X25519
    /// (RFC 7748) and HKDF-SHA256 (RFC 5869). The tests hold it against the vectors of those RFCs.
    enum Primitives {
        static let keyCount = 32
        static let nonceCount = 12
        static let tagCount = 16
        /// Private and public keys of X25519 alike.
        static let agreementKeyCount = 32

        typealias Nonce = ChaChaPoly.Nonce

        /// What failed inside the library. It never says why: that would be an oracle.
        struct Failure: Error {}

        /// A nonce that has not been used: 96 random bits from the system's generator.
        static func freshNonce() -> Nonce {
            Nonce()
        }

        static func nonce(_ bytes: some ContiguousBytes) throws(Failure) -> Nonce {
            do {
                return try Nonce(data: bytes.withUnsafeBytes { Array($0) })
            } catch {
                throw Failure()
            }
        }

        /// The nonce, the ciphertext and the tag, one after the other.
        static func seal(
            _ plaintext: [UInt8],
            key: SymmetricKey,
            nonce: Nonce,
            authenticating associatedData: [UInt8]
        ) throws(Failure) -> Data {
            do {
                return try ChaChaPoly.seal(plaintext, using: key, nonce: nonce, authenticating: associatedData).combined
            } catch {
                throw Failure()
            }
        }

        /// The plaintext of a nonce, a ciphertext and a tag, if they were made with this key and associated data.
        static func open(
            _ combined: ArraySlice<UInt8>,
            key: SymmetricKey,
            authenticating associatedData: [UInt8]
        ) throws(Failure) -> Data {
            do {
                let box = try ChaChaPoly.SealedBox(combined: combined)
                return try ChaChaPoly.open(box, using: key, authenticating: associatedData)
            } catch {
                throw Failure()
            }
        }

        /// The secret that two key pairs share. A public key of low order, whose secret everybody knows, fails.
        static func agree(
            _ privateKey: Curve25519.KeyAgreement.PrivateKey,
            with publicKey: [UInt8]
        ) throws(Failure) -> SymmetricKey {
            do {
                let publicKey = try Curve25519.KeyAgreement.PublicKey(rawRepresentation: publicKey)
                let secret = SymmetricKey(data: try privateKey.sharedSecretFromKeyAgreement(with: publicKey))
                // RFC 7748 §6.1: the check for the all-zero value. The libraries make it too; it costs nothing to be sure.
                guard secret.withUnsafeBytes({ $0.reduce(0, |) }) != 0 else { throw Failure() }
                return secret
            } catch {
                throw Failure()
            }
        }

        /// HKDF-SHA256, extract and expand. `count` is at most 255 * 32.
        static func derive(_ secret: SymmetricKey, salt: [UInt8], info: [UInt8], count: Int) -> SymmetricKey {
            HKDF<SHA256>.deriveKey(inputKeyMaterial: secret, salt: salt, info: info, outputByteCount: count)
        }
    }
#endif
