import CAPNSOpenSSL

/// Owns one `X509`.
final class X509Certificate {
    let pointer: OpaquePointer
    init(owning pointer: OpaquePointer) { self.pointer = pointer }
    deinit { X509_free(self.pointer) }
}

/// Owns one `EVP_PKEY`, either private or public.
///
/// `@unchecked Sendable`: the pointer is set once in `init`, and the key never changes after that. When a key is used,
/// OpenSSL caches a form of it for the provider, under OpenSSL's own lock.
final class EVPKey: @unchecked Sendable {
    let pointer: OpaquePointer
    init(owning pointer: OpaquePointer) { self.pointer = pointer }
    deinit { EVP_PKEY_free(self.pointer) }
}

/// Reads and writes PEM text (RFC 7468) with OpenSSL.
enum PEM {
    /// Refuses encrypted blocks. With neither a callback nor an argument, OpenSSL would prompt on the terminal.
    private static let noPassphrase:
        @convention(c) (
            UnsafeMutablePointer<CChar>?, Int32, Int32, UnsafeMutableRawPointer?
        ) -> Int32 = { _, _, _, _ in -1 }

    static func certificates(in text: String, code: WireError.Code) throws(WireError) -> [X509Certificate] {
        var found: [X509Certificate] = []
        OpenSSLErrors.clear()
        let bio = self.memory(Array(text.utf8))
        defer { BIO_free(bio) }
        while let pointer = PEM_read_bio_X509(bio, nil, Self.noPassphrase, nil) {
            found.append(X509Certificate(owning: pointer))
        }
        // The last read always fails: no block follows, or it is damaged (PEM_read_bio(3)).
        let isEnd = OpenSSLErrors.lastIs(PEM_R_NO_START_LINE, of: ERR_LIB_PEM)
        let errors = OpenSSLErrors.drain()
        guard !found.isEmpty else {
            throw WireError(code, "the text holds no certificate in PEM form: \(errors.text)")
        }
        guard isEnd else { throw WireError(code, "certificate \(found.count + 1) is damaged: \(errors.text)") }
        return found
    }

    /// Reads a private key. Returns `nil`, and leaves errors in the queue, if there is no key or the passphrase does
    /// not decrypt it.
    static func privateKey(in text: [UInt8], passphrase: String?) -> EVPKey? {
        OpenSSLErrors.clear()
        guard let bio = self.memory(text) else { return nil }
        defer { BIO_free(bio) }
        guard let passphrase else {
            return PEM_read_bio_PrivateKey(bio, nil, Self.noPassphrase, nil).map(EVPKey.init(owning:))
        }
        // With an argument and no callback, OpenSSL uses the argument as the passphrase.
        return passphrase.withCString {
            PEM_read_bio_PrivateKey(bio, nil, nil, UnsafeMutableRawPointer(mutating: $0)).map(EVPKey.init(owning:))
        }
    }

    static func publicKey(in text: String) throws(WireError) -> EVPKey {
        OpenSSLErrors.clear()
        let bio = self.memory(Array(text.utf8))
        defer { BIO_free(bio) }
        guard let pointer = PEM_read_bio_PUBKEY(bio, nil, Self.noPassphrase, nil) else {
            throw WireError(.certificateUnusable, OpenSSLErrors.drain().text)
        }
        return EVPKey(owning: pointer)
    }

    static func text(_ write: (OpaquePointer) -> Int32) -> String {
        guard let bio = BIO_new(BIO_s_mem()) else { return "" }
        defer { BIO_free(bio) }
        guard write(bio) == 1 else { return "" }
        var data: UnsafeMutablePointer<CChar>?
        let count = capns_bio_mem_data(bio, &data)
        guard let data else { return "" }
        return String(decoding: UnsafeRawBufferPointer(start: data, count: count), as: UTF8.self)
    }

    /// Creates a BIO with its own copy of `text`, so that no pointer into the array escapes its closure. Returns `nil`
    /// when out of memory, which OpenSSL's functions report as an error.
    private static func memory(_ text: [UInt8]) -> OpaquePointer? {
        guard let bio = BIO_new(BIO_s_mem()) else { return nil }
        _ = text.withUnsafeBytes { BIO_write(bio, $0.baseAddress, Int32(clamping: $0.count)) }
        return bio
    }
}
