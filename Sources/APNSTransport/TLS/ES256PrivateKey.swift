import CAPNSOpenSSL

/// A private key on the curve P-256 that signs with ES256 (RFC 7518, section 3.4), using OpenSSL.
package final class ES256PrivateKey: Sendable {
    package let publicKey: ES256PublicKey
    private let key: EVPKey

    /// Creates a new random key.
    package init() throws(OpenSSLFault) {
        OpenSSLErrors.clear()
        guard let pointer = capns_new_p256_key() else { throw .drained() }
        self.key = EVPKey(owning: pointer)
        self.publicKey = try ES256PublicKey(of: self.key)
    }

    /// Reads a key in DER: PKCS#8 (RFC 5958) or SEC 1 (RFC 5915). If it contains a public key, that must match the
    /// private key.
    package init(der bytes: [UInt8]) throws(ES256KeyFault) {
        OpenSSLErrors.clear()
        // Unlike the functions for PEM, this one accepts no passphrase and never prompts for one.
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

    /// The contents of a `.p8` file: the key in PKCS#8, PEM form. This is a secret: never log it.
    package var pem: String {
        PEM.text { PEM_write_bio_PKCS8PrivateKey($0, self.key.pointer, nil, nil, 0, nil, nil) }
    }

    /// Signs the SHA-256 digest of these bytes.
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
        // Bytes of another structure leave errors in the queue.
        defer { OpenSSLErrors.clear() }
        guard let (info, _) = DER.read(bytes[...], { d2i_X509_SIG(nil, &$0, $1) }) else { return false }
        X509_SIG_free(info)
        return true
    }
}

/// Why bytes are not a key for ES256. Contains no secret.
package enum ES256KeyFault: Error, Sendable, Hashable {
    /// The bytes are not a key of the expected kind. The text gives the reason.
    case unreadable(String)
    case encrypted
    /// A key of another algorithm, with OpenSSL's name for it, such as `RSA` or `ED25519`.
    case wrongAlgorithm(String)
    /// An EC key on another curve, such as `P-384` or `secp256k1`.
    case wrongCurve(String)
    /// The numbers are not a key on the curve, or the public key does not match the private key.
    case inconsistent(String)
}

extension EVPKey {
    /// Checks that this is an EC key on the curve P-256.
    ///
    /// - Throws: `wrongAlgorithm` or `wrongCurve`.
    func requireP256() throws(ES256KeyFault) {
        guard EVP_PKEY_is_a(self.pointer, "EC") == 1 else {
            throw .wrongAlgorithm(EVP_PKEY_get0_type_name(self.pointer).map { String(cString: $0) } ?? "unknown")
        }
        var name = [CChar](repeating: 0, count: 80)
        var count = 0
        guard EVP_PKEY_get_group_name(self.pointer, &name, name.count, &count) == 1 else {
            OpenSSLErrors.clear()
            throw .wrongCurve("without a name")
        }
        // OpenSSL's provider calls the curve prime256v1. Another provider may use NIST's name.
        let nistID = EC_curve_nist2nid(name)
        let id = nistID == NID_undef ? OBJ_sn2nid(name) : nistID
        if id == NID_X9_62_prime256v1 { return }
        let known = EC_curve_nid2nist(id).map { String(cString: $0) }
        throw .wrongCurve(known ?? String(decoding: name.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self))
    }
}
