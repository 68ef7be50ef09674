import CAPNSOpenSSL

/// An ECDSA signature on the curve P-256, in its two encodings: raw and DER.
package struct ES256Signature: Sendable, Hashable {
    /// The length in bytes of the raw form, which JSON Web Tokens use (RFC 7518, section 3.4).
    package static let length = 64

    /// r and s, 32 bytes each, most significant byte first.
    package let rawRepresentation: [UInt8]

    /// Returns `nil` unless there are 64 bytes.
    package init?(rawRepresentation: [UInt8]) {
        guard rawRepresentation.count == Self.length else { return nil }
        self.rawRepresentation = rawRepresentation
    }

    /// Reads the DER form: a sequence of the two numbers r and s (RFC 3279, section 2.2.3), with no bytes after it.
    ///
    /// - Throws: `OpenSSLFault` if the bytes have another form, or if one of the numbers has more than 32 bytes.
    package init(der bytes: [UInt8]) throws(OpenSSLFault) {
        OpenSSLErrors.clear()
        guard let (numbers, rest) = DER.read(bytes[...], { d2i_ECDSA_SIG(nil, &$0, $1) }) else { throw .drained() }
        defer { ECDSA_SIG_free(numbers) }
        guard rest == 0 else { throw OpenSSLFault(description: "\(rest) bytes follow the signature") }
        var r = [UInt8](repeating: 0, count: Self.length / 2)
        var s = r
        guard BN_bn2binpad(ECDSA_SIG_get0_r(numbers), &r, Int32(r.count)) == r.count,
            BN_bn2binpad(ECDSA_SIG_get0_s(numbers), &s, Int32(s.count)) == s.count
        else {
            throw OpenSSLFault(description: "r or s has more than \(r.count) bytes: the signature is of another curve")
        }
        self.rawRepresentation = r + s
    }

    /// The DER form: a sequence of r and s.
    package func der() throws(OpenSSLFault) -> [UInt8] {
        OpenSSLErrors.clear()
        guard let numbers = ECDSA_SIG_new() else { throw .drained() }
        defer { ECDSA_SIG_free(numbers) }
        let half = Int32(Self.length / 2)
        let s = Array(self.rawRepresentation.suffix(Int(half)))
        let first = BN_bin2bn(self.rawRepresentation, half, nil)
        let second = BN_bin2bn(s, half, nil)
        // On success, this takes ownership of both numbers; on failure, of neither.
        guard ECDSA_SIG_set0(numbers, first, second) == 1 else {
            BN_free(first)
            BN_free(second)
            throw .drained()
        }
        var start: UnsafeMutablePointer<UInt8>?
        let count = i2d_ECDSA_SIG(numbers, &start)
        guard count > 0, let start else { throw .drained() }
        defer { capns_free(start) }
        return Array(UnsafeBufferPointer(start: start, count: Int(count)))
    }
}
