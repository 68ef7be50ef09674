import CAPNSOpenSSL

/// A private key on the curve P-256 that signs as ES256 (RFC 7518, section 3.4).
///
/// By OpenSSL, as TLS is: the BoringSSL in swift-crypto, touched for one signature in 50 minutes, makes a process that
/// does nothing 1.2 MiB larger (`Docs/Decisions.md`).
package final class ES256Key: Sendable {
    /// Why OpenSSL did not do what it was asked for, in its words. Holds no secret.
    package struct Fault: Error, Sendable, Hashable, CustomStringConvertible {
        package let description: String

        static func drained() -> Fault { Fault(description: OpenSSLErrors.drain().text) }
    }

    /// Bytes of a signature: r and s of 32 each, not their ASN.1 form.
    package static let signatureLength = 64

    /// The key's other half: x and y of 32 bytes each.
    package let publicKey: [UInt8]
    private let key: PrivateKey

    /// - Parameter number: The private key itself, most significant byte first (RFC 5915: 32 bytes; fewer are taken, too).
    /// - Throws: `Fault` unless it is at least 1 and less than the order of the curve.
    package init(number: some Collection<UInt8>) throws(Fault) {
        ERR_clear_error()
        // OpenSSL would take more, with zeros at their beginning.
        guard number.count <= 32 else { throw Fault(description: "\(number.count) bytes instead of 32") }
        guard let number = BigNumber(Array(number)) else { throw .drained() }
        guard let pointer = capns_p256_key(number.pointer) else { throw .drained() }
        self.key = PrivateKey(owning: pointer)
        self.publicKey = try Self.publicKey(of: number)
    }

    /// The signature of the SHA-256 of these bytes.
    ///
    /// - Returns: r and s, 64 bytes.
    /// - Throws: What OpenSSL says.
    package func signature(of bytes: [UInt8]) throws(Fault) -> [UInt8] {
        ERR_clear_error()
        guard let context = EVP_MD_CTX_new() else { throw .drained() }
        defer { EVP_MD_CTX_free(context) }
        var signature = [UInt8](repeating: 0, count: max(0, Int(EVP_PKEY_get_size(self.key.pointer))))
        var count = signature.count
        guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, self.key.pointer) == 1,
            EVP_DigestSign(context, &signature, &count, bytes, bytes.count) == 1
        else { throw .drained() }
        return try Self.signature(inDER: Array(signature.prefix(count)))
    }

    /// The other form of a signature.
    ///
    /// - Parameter bytes: A sequence of two numbers, r and s (RFC 3279, section 2.2.3), and nothing behind it.
    /// - Returns: r and s, 64 bytes.
    /// - Throws: `Fault` if it is none, or if one of the numbers has more than 32 bytes.
    package static func signature(inDER bytes: [UInt8]) throws(Fault) -> [UInt8] {
        ERR_clear_error()
        var rest = 0
        let numbers = bytes.withUnsafeBufferPointer { buffer in
            var next = buffer.baseAddress
            let numbers = d2i_ECDSA_SIG(nil, &next, buffer.count)
            if let start = buffer.baseAddress, let next { rest = buffer.count - (next - start) }
            return numbers
        }
        guard let numbers else { throw .drained() }
        defer { ECDSA_SIG_free(numbers) }
        guard rest == 0 else { throw Fault(description: "\(rest) bytes behind the signature") }
        var r = [UInt8](repeating: 0, count: Self.signatureLength / 2)
        var s = r
        guard BN_bn2binpad(ECDSA_SIG_get0_r(numbers), &r, Int32(r.count)) == r.count,
            BN_bn2binpad(ECDSA_SIG_get0_s(numbers), &s, Int32(s.count)) == s.count
        else { throw .drained() }
        return r + s
    }

    private static func publicKey(of number: BigNumber) throws(Fault) -> [UInt8] {
        guard let group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1) else { throw .drained() }
        defer { EC_GROUP_free(group) }
        guard let point = EC_POINT_new(group) else { throw .drained() }
        defer { EC_POINT_free(point) }
        // One byte that names the form goes before the coordinates (SEC 1, section 2.3.3).
        var bytes = [UInt8](repeating: 0, count: 65)
        guard EC_POINT_mul(group, point, number.pointer, nil, nil, nil) == 1,
            EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED, &bytes, bytes.count, nil) == bytes.count
        else { throw .drained() }
        return Array(bytes.dropFirst())
    }
}

/// The owner of one `BIGNUM`, which is zeroed when it goes.
private final class BigNumber {
    let pointer: OpaquePointer

    init?(_ bytes: [UInt8]) {
        guard let pointer = BN_bin2bn(bytes, Int32(clamping: bytes.count), nil) else { return nil }
        self.pointer = pointer
    }

    deinit { BN_clear_free(self.pointer) }
}
