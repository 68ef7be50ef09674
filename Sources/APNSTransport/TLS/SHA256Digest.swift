import APNSBasics
import CAPNSOpenSSL

/// Computes the SHA-256 digest (FIPS 180-4) of bytes that arrive in chunks.
package final class SHA256Digest {
    private let context: DigestContext

    package init() throws(OpenSSLFault) {
        self.context = try DigestContext()
        guard EVP_DigestInit_ex(self.context.pointer, EVP_sha256(), nil) == 1 else { throw .drained() }
    }

    package func update(_ bytes: UnsafeRawBufferPointer) throws(OpenSSLFault) {
        guard EVP_DigestUpdate(self.context.pointer, bytes.baseAddress, bytes.count) == 1 else { throw .drained() }
    }

    /// Returns the digest of all chunks as 64 hexadecimal digits. Call nothing after it.
    package func finish() throws(OpenSSLFault) -> String {
        var digest = [UInt8](repeating: 0, count: 32)
        guard EVP_DigestFinal_ex(self.context.pointer, &digest, nil) == 1 else { throw .drained() }
        return Hexadecimal.text(of: digest)
    }

    /// Returns the digest of `bytes` as 64 hexadecimal digits.
    package static func hexadecimal(of bytes: [UInt8]) throws(OpenSSLFault) -> String {
        let digest = try SHA256Digest()
        guard EVP_DigestUpdate(digest.context.pointer, bytes, bytes.count) == 1 else { throw .drained() }
        return try digest.finish()
    }
}

/// Owns one `EVP_MD_CTX`, for a digest or for the digest of a signature.
final class DigestContext {
    let pointer: OpaquePointer

    init() throws(OpenSSLFault) {
        OpenSSLErrors.clear()
        guard let pointer = EVP_MD_CTX_new() else { throw .drained() }
        self.pointer = pointer
    }

    deinit { EVP_MD_CTX_free(self.pointer) }
}
