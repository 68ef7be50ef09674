import CAPNSOpenSSL

/// A public key on the curve P-256, which verifies ES256 signatures.
package final class ES256PublicKey: Sendable {
    /// The two coordinates, x and y of 32 bytes each, most significant byte first.
    package let rawRepresentation: [UInt8]
    private let key: EVPKey

    /// Creates a key from its coordinates.
    ///
    /// - Parameter rawRepresentation: x and y, 32 bytes each.
    /// - Throws: `OpenSSLFault` unless they are a point on the curve.
    package init(rawRepresentation: [UInt8]) throws(OpenSSLFault) {
        OpenSSLErrors.clear()
        guard rawRepresentation.count == 64 else {
            throw OpenSSLFault(description: "\(rawRepresentation.count) bytes instead of 64")
        }
        // The coordinates are preceded by one byte that names the form (SEC 1, section 2.3.3).
        guard let pointer = capns_p256_public_key([4] + rawRepresentation) else { throw .drained() }
        self.key = EVPKey(owning: pointer)
        self.rawRepresentation = rawRepresentation
    }

    /// Reads a public key from PEM text: SubjectPublicKeyInfo (RFC 5280).
    package convenience init(pem: String) throws(ES256KeyFault) {
        let key: EVPKey
        do throws(WireError) {
            key = try PEM.publicKey(in: pem)
        } catch {
            throw .unreadable(error.message)
        }
        try key.requireP256()
        do throws(OpenSSLFault) {
            try self.init(of: key)
        } catch {
            throw .inconsistent(error.description)
        }
    }

    /// The public half of `key`.
    init(of key: EVPKey) throws(OpenSSLFault) {
        self.key = key
        self.rawRepresentation = try Self.coordinates(of: key)
    }

    /// The key as SubjectPublicKeyInfo in PEM form.
    package var pem: String {
        PEM.text { PEM_write_bio_PUBKEY($0, self.key.pointer) }
    }

    /// Whether `signature` was made with the matching private key over the SHA-256 digest of these bytes.
    package func isValid(_ signature: ES256Signature, of bytes: [UInt8]) -> Bool {
        // A signature that does not match leaves errors in the queue.
        defer { OpenSSLErrors.clear() }
        guard let der = try? signature.der(), let context = try? DigestContext() else { return false }
        return EVP_DigestVerifyInit(context.pointer, nil, EVP_sha256(), nil, self.key.pointer) == 1
            && EVP_DigestVerify(context.pointer, der, der.count, bytes, bytes.count) == 1
    }

    private static func coordinates(of key: EVPKey) throws(OpenSSLFault) -> [UInt8] {
        var coordinates = [UInt8](repeating: 0, count: 64)
        guard capns_p256_coordinates(key.pointer, &coordinates) == 1 else { throw .drained() }
        return coordinates
    }
}
