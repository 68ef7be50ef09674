import CAPNSOpenSSL

/// The owner of one `X509`.
final class X509Certificate {
    let pointer: OpaquePointer
    init(owning pointer: OpaquePointer) { self.pointer = pointer }
    deinit { X509_free(self.pointer) }
}

/// The owner of one `EVP_PKEY`: a private key or a public one.
///
/// `@unchecked Sendable`: the pointer is set once in `init`; nobody changes the key after that, and what OpenSSL keeps beside
/// it when a key is used (its form for a provider) has a lock of OpenSSL's.
final class EVPKey: @unchecked Sendable {
    let pointer: OpaquePointer
    init(owning pointer: OpaquePointer) { self.pointer = pointer }
    deinit { EVP_PKEY_free(self.pointer) }
}

/// Reading and writing PEM text (RFC 7468) by OpenSSL.
enum PEM {
    static func certificates(in text: String, code: WireError.Code) throws(WireError) -> [X509Certificate] {
        var found: [X509Certificate] = []
        ERR_clear_error()
        let bio = self.memory(Array(text.utf8))
        defer { BIO_free(bio) }
        while let pointer = PEM_read_bio_X509(bio, nil, nil, nil) {
            found.append(X509Certificate(owning: pointer))
        }
        let errors = OpenSSLErrors.drain()  // the last read always fails: no further PEM block
        guard !found.isEmpty else {
            throw WireError(code, "the text holds no certificate in PEM form: \(errors.text)")
        }
        return found
    }

    /// Nil with errors in the queue if there is no key, or if the passphrase does not open it.
    static func privateKey(in text: [UInt8], passphrase: String?) -> EVPKey? {
        ERR_clear_error()
        guard let bio = self.memory(text) else { return nil }
        defer { BIO_free(bio) }
        guard let passphrase else {
            // Without the callback OpenSSL asks the terminal.
            return PEM_read_bio_PrivateKey(bio, nil, { _, _, _, _ in 0 }, nil).map(EVPKey.init(owning:))
        }
        // Without a callback OpenSSL takes the argument for the passphrase.
        return passphrase.withCString {
            PEM_read_bio_PrivateKey(bio, nil, nil, UnsafeMutableRawPointer(mutating: $0)).map(EVPKey.init(owning:))
        }
    }

    static func publicKey(in text: String) throws(WireError) -> EVPKey {
        ERR_clear_error()
        let bio = self.memory(Array(text.utf8))
        defer { BIO_free(bio) }
        // Without the callback OpenSSL asks the terminal for a pass phrase.
        guard let pointer = PEM_read_bio_PUBKEY(bio, nil, { _, _, _, _ in 0 }, nil) else {
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

    /// A BIO of its own copy of `text`, so that no pointer into the array leaves its closure. Nil without memory, of which
    /// OpenSSL's functions make an error.
    private static func memory(_ text: [UInt8]) -> OpaquePointer? {
        guard let bio = BIO_new(BIO_s_mem()) else { return nil }
        _ = text.withUnsafeBytes { BIO_write(bio, $0.baseAddress, Int32(clamping: $0.count)) }
        return bio
    }
}

/// What OpenSSL left in this thread's error queue. The queue must be empty before each call whose result matters.
struct OpenSSLErrors {
    var codes: [UInt] = []

    static func drain() -> OpenSSLErrors {
        var errors = OpenSSLErrors()
        while true {
            let code = ERR_get_error()
            if code == 0 { return errors }
            if errors.codes.count < 8 { errors.codes.append(code) }
        }
    }

    /// The reason of the first error (ERR_GET_REASON of OpenSSL 3: the low 23 bits).
    var firstReason: Int32 { self.codes.first.map { Int32($0 & 0x7F_FFFF) } ?? 0 }

    var text: String {
        if self.codes.isEmpty { return "no further detail" }
        return self.codes.map { code in
            if let reason = ERR_reason_error_string(code) { return String(cString: reason) }
            return "error \(code)"
        }.joined(separator: "; ")
    }
}
