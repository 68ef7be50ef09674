import APNSBasics
import CAPNSOpenSSL
import NIOCore

/// A server's traffic secret and the number of records that it has protected (RFC 8446, sections 5.3 and 7.1). A server
/// needs both to send an alert of its own.
struct ServerTrafficSecret {
    var bytes: [UInt8] = []
    var recordCount: UInt64 = 0
}

/// Sends alerts of the simulator's choice.
///
/// OpenSSL sends a fatal alert only for errors that it detects itself. APNs refuses a certificate after a TLS 1.3
/// handshake, with an alert instead of its first bytes. A simulator must be able to do that to any client at any time,
/// so this extension builds the alert's record itself, with the key that OpenSSL uses.
extension TLSSession {
    /// Makes OpenSSL report the secrets of this context's sessions. Server only.
    static func reportSecrets(of context: OpaquePointer) {
        SSL_CTX_set_keylog_callback(context) { ssl, line in
            guard let ssl, let line, let data = SSL_get_ex_data(ssl, 0) else { return }
            let words = String(cString: line).split(separator: " ")
            guard words.count == 3, words[0] == "SERVER_TRAFFIC_SECRET_0" else { return }
            Unmanaged<TLSSession>.fromOpaque(data)._withUnsafeGuaranteedRef {
                $0.trafficSecret.bytes = Hexadecimal.bytes(of: words[2]) ?? []
            }
        }
    }

    /// Appends a fatal alert (RFC 8446, section 6.2) to the bytes for the network. Nothing may be written after it.
    ///
    /// - Returns: `false` if no TLS 1.3 handshake has been completed.
    func appendAlert(_ description: UInt8) -> Bool {
        guard SSL_is_init_finished(self.ssl) == 1, SSL_version(self.ssl) == TLS1_3_VERSION,
            let suite = SSL_get_current_cipher(self.ssl), let digest = SSL_CIPHER_get_handshake_digest(suite)
        else { return false }
        let cipher: OpaquePointer? =
            switch SSL_CIPHER_get_protocol_id(suite) {
            case 0x1301: EVP_aes_128_gcm()
            case 0x1302: EVP_aes_256_gcm()
            case 0x1303: EVP_chacha20_poly1305()
            default: nil
            }
        guard let cipher, !self.trafficSecret.bytes.isEmpty else { return false }
        let key = self.expand("key", Int(EVP_CIPHER_get_key_length(cipher)), digest)
        var nonce = self.expand("iv", 12, digest)
        guard nonce.count == 12, !key.isEmpty else { return false }
        for index in 0..<8 {
            nonce[4 + index] ^= UInt8(truncatingIfNeeded: self.trafficSecret.recordCount >> UInt64(56 - 8 * index))
        }
        // Level "fatal", the alert, and the content type, which follows the content.
        let content: [UInt8] = [2, description, 21]
        let header: [UInt8] = [23, 3, 3, 0, UInt8(content.count + 16)]
        guard let sealed = Self.seal(content, header, key, nonce, cipher) else { return false }
        self.buffers.output.writeBytes(header + sealed)
        return true
    }

    /// HKDF-Expand-Label with an empty context (RFC 8446, section 7.1), for lengths of at most one hash.
    private func expand(_ label: String, _ length: Int, _ digest: OpaquePointer) -> [UInt8] {
        let label = Array("tls13 \(label)".utf8)
        let info = [0, UInt8(length), UInt8(label.count)] + label + [0, 1]
        var output = [UInt8](repeating: 0, count: 64)
        var count: UInt32 = 0
        let secret = self.trafficSecret.bytes
        guard HMAC(digest, secret, Int32(secret.count), info, info.count, &output, &count) != nil,
            length <= Int(count)
        else { return [] }
        return Array(output[..<length])
    }

    private static func seal(
        _ content: [UInt8],
        _ header: [UInt8],
        _ key: [UInt8],
        _ nonce: [UInt8],
        _ cipher: OpaquePointer
    ) -> [UInt8]? {
        guard let context = EVP_CIPHER_CTX_new() else { return nil }
        defer { EVP_CIPHER_CTX_free(context) }
        var sealed = [UInt8](repeating: 0, count: content.count)
        var tag = [UInt8](repeating: 0, count: 16)
        var count: Int32 = 0
        guard EVP_EncryptInit_ex(context, cipher, nil, key, nonce) == 1,
            EVP_EncryptUpdate(context, nil, &count, header, Int32(header.count)) == 1,
            EVP_EncryptUpdate(context, &sealed, &count, content, Int32(content.count)) == 1,
            EVP_EncryptFinal_ex(context, nil, &count) == 1,
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, &tag) == 1
        else { return nil }
        return sealed + tag
    }
}
