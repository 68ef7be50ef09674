import APNSBasics
import CAPNSOpenSSL

/// The SHA-256 (FIPS 180-4) of bytes that come in portions.
package final class SHA256Digest {
    private let context: DigestContext

    package init() throws(OpenSSLFault) {
        self.context = try DigestContext()
        guard EVP_DigestInit_ex(self.context.pointer, EVP_sha256(), nil) == 1 else { throw .drained() }
    }

    package func update(_ bytes: UnsafeRawBufferPointer) throws(OpenSSLFault) {
        guard EVP_DigestUpdate(self.context.pointer, bytes.baseAddress, bytes.count) == 1 else { throw .drained() }
    }

    /// The digest of all portions as 64 hexadecimal digits. Nothing may follow.
    package func finish() throws(OpenSSLFault) -> String {
        var digest = [UInt8](repeating: 0, count: 32)
        guard EVP_DigestFinal_ex(self.context.pointer, &digest, nil) == 1 else { throw .drained() }
        return Hexadecimal.text(of: digest)
    }

    /// The digest of bytes that are there at once, as 64 hexadecimal digits.
    package static func hexadecimal(of bytes: [UInt8]) throws(OpenSSLFault) -> String {
        let digest = try SHA256Digest()
        guard EVP_DigestUpdate(digest.context.pointer, bytes, bytes.count) == 1 else { throw .drained() }
        return try digest.finish()
    }
}

/// The owner of one `EVP_MD_CTX`: a digest, or the digest of a signature.
final class DigestContext {
    let pointer: OpaquePointer

    init() throws(OpenSSLFault) {
        ERR_clear_error()
        guard let pointer = EVP_MD_CTX_new() else { throw .drained() }
        self.pointer = pointer
    }

    deinit { EVP_MD_CTX_free(self.pointer) }
}
