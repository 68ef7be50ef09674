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

    /// All cryptography of this module: ChaCha20-Poly1305 (RFC 8439), X25519 (RFC 7748) and HKDF-SHA256 (RFC 5869); for
    /// Web Push, AES-128-GCM and P-256. The tests check it against the vectors of those RFCs and of RFC 8291.
    enum Primitives {
        static let keyCount = 32
        static let nonceCount = 12
        static let tagCount = 16
        /// The length of X25519 private keys and of public keys.
        static let agreementKeyCount = 32

        typealias Nonce = ChaChaPoly.Nonce

        /// A failure inside the cryptography library. It gives no reason, because a reason could serve an attacker as
        /// an oracle.
        struct Failure: Error {}

        /// A new nonce: 96 random bits from the system's generator.
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

        /// Returns the nonce, the ciphertext and the tag, concatenated.
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

        /// Returns the plaintext if the nonce, ciphertext and tag were made with this key and associated data.
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

        /// The shared secret of two key pairs. Fails for a public key of low order, whose secret is publicly known.
        static func agree(
            _ privateKey: Curve25519.KeyAgreement.PrivateKey,
            with publicKey: [UInt8]
        ) throws(Failure) -> SymmetricKey {
            do {
                let publicKey = try Curve25519.KeyAgreement.PublicKey(rawRepresentation: publicKey)
                let secret = SymmetricKey(data: try privateKey.sharedSecretFromKeyAgreement(with: publicKey))
                // RFC 7748 §6.1: check for the all-zero value. The libraries check it too; a second check costs
                // nothing.
                guard secret.withUnsafeBytes({ $0.reduce(0, |) }) != 0 else { throw Failure() }
                return secret
            } catch {
                throw Failure()
            }
        }

        /// The shared secret of two key pairs on the curve P-256. Fails for bytes that are no point of the curve.
        static func agree(
            _ privateKey: P256.KeyAgreement.PrivateKey,
            with publicKey: [UInt8]
        ) throws(Failure) -> SymmetricKey {
            do {
                let publicKey = try P256.KeyAgreement.PublicKey(x963Representation: publicKey)
                return SymmetricKey(data: try privateKey.sharedSecretFromKeyAgreement(with: publicKey))
            } catch {
                throw Failure()
            }
        }

        /// Returns the plaintext if the ciphertext, which ends with the tag, was made with AES-GCM, this key and this nonce.
        static func openAES(_ ciphertext: [UInt8], key: SymmetricKey, nonce: [UInt8]) throws(Failure) -> [UInt8] {
            do {
                let box = try AES.GCM.SealedBox(
                    nonce: AES.GCM.Nonce(data: nonce),
                    ciphertext: ciphertext.dropLast(self.tagCount),
                    tag: ciphertext.suffix(self.tagCount)
                )
                return Array(try AES.GCM.open(box, using: key))
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
