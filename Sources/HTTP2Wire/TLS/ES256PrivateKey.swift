import CAPNSOpenSSL

/// A private key on the curve P-256 that signs as ES256 (RFC 7518, section 3.4), by OpenSSL.
package final class ES256PrivateKey: Sendable {
    package let publicKey: ES256PublicKey
    private let key: EVPKey

    /// A new random key.
    package init() throws(OpenSSLFault) {
        ERR_clear_error()
        guard let pointer = capns_new_p256_key() else { throw .drained() }
        self.key = EVPKey(owning: pointer)
        self.publicKey = try ES256PublicKey(of: self.key)
    }

    /// Reads a key in DER: PKCS#8 (RFC 5958) or SEC 1 (RFC 5915). A public half in it must belong to the private half.
    package init(der bytes: [UInt8]) throws(ES256KeyFault) {
        ERR_clear_error()
        // Takes no pass phrase and asks for none, unlike the functions for PEM.
        guard let (pointer, rest) = DER.read(bytes[...], { d2i_AutoPrivateKey(nil, &$0, $1) }) else {
            let errors = OpenSSLErrors.drain()
            throw Self.isEncrypted(bytes) ? .encrypted : .unreadable(errors.text)
        }
        let key = EVPKey(owning: pointer)
        guard rest == 0 else { throw .unreadable("\(rest) bytes follow the key") }
        try key.requireP256()
        guard let check = EVP_PKEY_CTX_new_from_pkey(nil, key.pointer, nil) else {
            throw .inconsistent(OpenSSLErrors.drain().text)
        }
        defer { EVP_PKEY_CTX_free(check) }
        guard EVP_PKEY_check(check) == 1 else { throw .inconsistent(OpenSSLErrors.drain().text) }
        do throws(OpenSSLFault) {
            self.publicKey = try ES256PublicKey(of: key)
        } catch {
            throw .inconsistent(error.description)
        }
        self.key = key
    }

    /// The key as the text of a `.p8` file: PKCS#8 in PEM form. A secret: never log it.
    package var pem: String {
        PEM.text { PEM_write_bio_PKCS8PrivateKey($0, self.key.pointer, nil, nil, 0, nil, nil) }
    }

    /// The signature of the SHA-256 of these bytes.
    package func signature(of bytes: [UInt8]) throws(OpenSSLFault) -> ES256Signature {
        let context = try DigestContext()
        var signature = [UInt8](repeating: 0, count: max(0, Int(EVP_PKEY_get_size(self.key.pointer))))
        var count = signature.count
        guard EVP_DigestSignInit(context.pointer, nil, EVP_sha256(), nil, self.key.pointer) == 1,
            EVP_DigestSign(context.pointer, &signature, &count, bytes, bytes.count) == 1
        else { throw .drained() }
        return try ES256Signature(der: Array(signature.prefix(count)))
    }

    /// Whether the bytes are an EncryptedPrivateKeyInfo (RFC 5958).
    private static func isEncrypted(_ bytes: [UInt8]) -> Bool {
        // What is no such thing leaves errors in the queue.
        defer { ERR_clear_error() }
        guard let (info, _) = DER.read(bytes[...], { d2i_X509_SIG(nil, &$0, $1) }) else { return false }
        X509_SIG_free(info)
        return true
    }
}

/// Why bytes are not a key for ES256. Holds no secret.
package enum ES256KeyFault: Error, Sendable, Hashable {
    /// OpenSSL finds no key of the wanted kind in the bytes; in its words.
    case unreadable(String)
    case encrypted
    /// A key of another algorithm, by OpenSSL's name: `RSA`, `ED25519`.
    case wrongAlgorithm(String)
    /// An EC key on another curve: `P-384`, `secp256k1`.
    case wrongCurve(String)
    /// The numbers are not those of a key on the curve, or the two halves do not belong together.
    case inconsistent(String)
}

extension EVPKey {
    /// - Throws: `wrongAlgorithm` or `wrongCurve`.
    func requireP256() throws(ES256KeyFault) {
        guard EVP_PKEY_is_a(self.pointer, "EC") == 1 else {
            throw .wrongAlgorithm(EVP_PKEY_get0_type_name(self.pointer).map { String(cString: $0) } ?? "unknown")
        }
        var name = [CChar](repeating: 0, count: 80)
        var count = 0
        guard EVP_PKEY_get_group_name(self.pointer, &name, name.count, &count) == 1 else {
            ERR_clear_error()
            throw .wrongCurve("without a name")
        }
        let id = OBJ_sn2nid(name)
        if id == NID_X9_62_prime256v1 { return }
        let known = EC_curve_nid2nist(id).map { String(cString: $0) }
        throw .wrongCurve(known ?? String(decoding: name.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self))
    }
}
