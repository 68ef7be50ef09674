import CAPNSOpenSSL

/// The errors that OpenSSL left in this thread's error queue.
struct OpenSSLErrors {
    private var codes: [UInt] = []

    /// Empties this thread's error queue. Call it before any use of OpenSSL: some results differ only in the errors in
    /// the queue, and the first call initializes OpenSSL.
    static func clear() {
        _ = self.withoutExitHandler
        ERR_clear_error()
    }

    /// Initializes OpenSSL without its handler for `exit()`. That handler would free OpenSSL's tables while the threads
    /// of a server may still use them. It would also leak the error queue of a thread that ends after it. The process
    /// ends anyway, so nothing needs to be freed. Has no effect if another library initialized OpenSSL before.
    private static let withoutExitHandler: Int32 = OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil)

    static func drain() -> OpenSSLErrors {
        var errors = OpenSSLErrors()
        while true {
            let code = ERR_get_error()
            if code == 0 { return errors }
            if errors.codes.count < 8 { errors.codes.append(code) }
        }
    }

    /// Whether the last error in this thread's queue has this reason in this library of OpenSSL. The queue stays as it
    /// is.
    static func lastIs(_ reason: Int32, of library: Int32) -> Bool {
        let code = ERR_peek_last_error()
        // As in `ERR_GET_LIB` and `ERR_GET_REASON` of OpenSSL 3.
        return (code >> 23) & 0xFF == UInt(library) && code & 0x7F_FFFF == UInt(reason)
    }

    /// The reason of the first error: the low 23 bits, as in `ERR_GET_REASON` of OpenSSL 3.
    var firstReason: Int32 { self.codes.first.map { Int32($0 & 0x7F_FFFF) } ?? 0 }

    var text: String {
        if self.codes.isEmpty { return "no further detail" }
        return self.codes.map { code in
            if let reason = ERR_reason_error_string(code) { return String(cString: reason) }
            return "error \(code)"
        }.joined(separator: "; ")
    }
}
