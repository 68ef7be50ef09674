import APNSBasics
import CAPNSOpenSSL

/// A certificate chain with its private key, read and checked, for one side of a TLS connection.
package struct TLSIdentity: Sendable, Hashable {
    /// Leaf first.
    package let certificateChainPEM: String
    /// Not encrypted. This is a secret: never log it.
    package let privateKeyPEM: String
    /// The validity period of the certificate, in seconds since 1970.
    package let notBefore: Int64
    package let notAfter: Int64
    /// The subject's common name; empty if it has none.
    package let commonName: String
    /// The topics that the certificate may push to, from Apple's extension 1.2.840.113635.100.6.3.6. Without the
    /// extension, this is the subject's UID, which holds the bundle ID in certificates for one app.
    package let topics: [String]
    /// SHA-256 of the leaf, in hexadecimal. It identifies the certificate.
    package let fingerprint: String

    /// Why a certificate or its key cannot be used.
    package struct Fault: Error, Sendable, Hashable {
        package enum Code: Sendable, Hashable {
            case notACertificate
            case notAKey
            /// The key or the PKCS#12 file is encrypted, and no passphrase was given.
            case passphraseMissing
            case passphraseWrong
            /// The encryption is one that OpenSSL 3 reads only with its legacy provider, or not at all.
            case encryptionTooOld
            case keyMismatch
        }

        package let code: Code
        /// OpenSSL's description. Contains no secret.
        package let detail: String
    }

    /// Reads a certificate (PEM with its chain, or DER) and its private key (PEM or DER).
    ///
    /// - Parameters:
    ///   - certificate: The certificate, in PEM or DER.
    ///   - key: The private key. If one PEM text contains both, pass the same bytes as for the certificate.
    ///   - passphrase: For an encrypted key. Otherwise ignored.
    package static func read(certificate: [UInt8], key: [UInt8], passphrase: String?) throws(Fault) -> TLSIdentity {
        let chain = try Self.certificates(in: certificate)
        return try Self.identity(chain, try Self.privateKey(in: key, passphrase: passphrase))
    }

    /// Reads a PKCS#12 file (`.p12`, `.pfx`; RFC 7292): a certificate, its key, and the chain if the file contains one.
    package static func read(pkcs12 bytes: [UInt8], passphrase: String?) throws(Fault) -> TLSIdentity {
        OpenSSLErrors.clear()
        guard let (file, _) = DER.read(bytes[...], { d2i_PKCS12(nil, &$0, $1) }) else {
            throw Fault(code: .notACertificate, detail: OpenSSLErrors.drain().text)
        }
        defer { PKCS12_free(file) }
        // In PKCS#12, a missing passphrase differs from an empty one. Users see no difference, so both are tried.
        let given = passphrase ?? ""
        let isOpen =
            PKCS12_mac_present(file) == 0 || PKCS12_verify_mac(file, given, -1) == 1
            || (given.isEmpty && PKCS12_verify_mac(file, nil, 0) == 1)
        guard isOpen else {
            let errors = OpenSSLErrors.drain()
            if errors.isUnsupported { throw Fault(code: .encryptionTooOld, detail: errors.text) }
            throw Fault(code: given.isEmpty ? .passphraseMissing : .passphraseWrong, detail: errors.text)
        }
        OpenSSLErrors.clear()
        var keyPointer: OpaquePointer?
        var leafPointer: OpaquePointer?
        var others: OpaquePointer?
        let isParsed = PKCS12_parse(file, given, &keyPointer, &leafPointer, &others) == 1
        let key = keyPointer.map(EVPKey.init(owning:))
        let leaf = leafPointer.map(X509Certificate.init(owning:))
        defer { capns_x509_stack_free(others) }
        guard isParsed else {
            let errors = OpenSSLErrors.drain()
            if errors.isUnsupported { throw Fault(code: .encryptionTooOld, detail: errors.text) }
            throw Fault(code: .passphraseWrong, detail: errors.text)
        }
        guard let key else { throw Fault(code: .notAKey, detail: "the file holds no private key") }
        guard let leaf else { throw Fault(code: .notACertificate, detail: "the file holds no certificate for its key") }
        var chain = [leaf]
        for index in 0..<capns_x509_stack_count(others) {
            if let pointer = capns_x509_stack_copy(others, index) { chain.append(X509Certificate(owning: pointer)) }
        }
        return try Self.identity(chain, key)
    }

    /// Encodes the identity as a PKCS#12 file, for simulators and tests.
    package func pkcs12(passphrase: String) throws(Fault) -> [UInt8] {
        let chain = try Self.certificates(in: Array(self.certificateChainPEM.utf8))
        let key = try Self.privateKey(in: Array(self.privateKeyPEM.utf8), passphrase: nil)
        OpenSSLErrors.clear()
        guard let leaf = chain.first,
            let file = PKCS12_create(passphrase, "apns", key.pointer, leaf.pointer, nil, 0, 0, 0, 0, 0)
        else { throw Fault(code: .notACertificate, detail: OpenSSLErrors.drain().text) }
        defer { PKCS12_free(file) }
        var start: UnsafeMutablePointer<UInt8>?
        let count = i2d_PKCS12(file, &start)
        guard count > 0, let start else { throw Fault(code: .notACertificate, detail: OpenSSLErrors.drain().text) }
        defer { capns_free(start) }
        return Array(UnsafeBufferPointer(start: start, count: Int(count)))
    }

    // MARK: Reading

    private static func certificates(in bytes: [UInt8]) throws(Fault) -> [X509Certificate] {
        OpenSSLErrors.clear()
        if bytes.first == DER.sequence {
            guard let (pointer, _) = DER.read(bytes[...], { d2i_X509(nil, &$0, $1) }) else {
                throw Fault(code: .notACertificate, detail: OpenSSLErrors.drain().text)
            }
            return [X509Certificate(owning: pointer)]
        }
        do {
            return try PEM.certificates(in: String(decoding: bytes, as: UTF8.self), code: .certificateUnusable)
        } catch {
            throw Fault(code: .notACertificate, detail: error.message)
        }
    }

    private static func privateKey(in bytes: [UInt8], passphrase: String?) throws(Fault) -> EVPKey {
        OpenSSLErrors.clear()
        if bytes.first == DER.sequence {
            guard let (pointer, _) = DER.read(bytes[...], { d2i_AutoPrivateKey(nil, &$0, $1) }) else {
                throw Fault(code: .notAKey, detail: OpenSSLErrors.drain().text)
            }
            return EVPKey(owning: pointer)
        }
        if let key = PEM.privateKey(in: bytes, passphrase: passphrase) { return key }
        let errors = OpenSSLErrors.drain()
        guard bytes.firstRange(of: Array("ENCRYPTED".utf8)) != nil else {
            throw Fault(code: .notAKey, detail: errors.text)
        }
        if errors.isUnsupported { throw Fault(code: .encryptionTooOld, detail: errors.text) }
        throw Fault(code: passphrase == nil ? .passphraseMissing : .passphraseWrong, detail: errors.text)
    }

    private static func identity(_ chain: [X509Certificate], _ key: EVPKey) throws(Fault) -> TLSIdentity {
        OpenSSLErrors.clear()
        // The leaf is the certificate that matches the key, at any position in the chain.
        guard let position = chain.firstIndex(where: { X509_check_private_key($0.pointer, key.pointer) == 1 }) else {
            throw Fault(code: .keyMismatch, detail: OpenSSLErrors.drain().text)
        }
        OpenSSLErrors.clear()
        let leaf = chain[position]
        let others = chain.enumerated().filter { $0.offset != position }.map(\.element)
        let subject = X509_get_subject_name(leaf.pointer)
        let userID = Self.text(subject, NID_userId)
        let named = Self.extensionBytes("1.2.840.113635.100.6.3.6", of: leaf).map(Self.topics(inExtension:)) ?? []
        return TLSIdentity(
            certificateChainPEM: ([leaf] + others).map { certificate in
                PEM.text { PEM_write_bio_X509($0, certificate.pointer) }
            }.joined(),
            privateKeyPEM: PEM.text { PEM_write_bio_PrivateKey($0, key.pointer, nil, nil, 0, nil, nil) },
            notBefore: Self.seconds(X509_get0_notBefore(leaf.pointer)),
            notAfter: Self.seconds(X509_get0_notAfter(leaf.pointer)),
            commonName: Self.text(subject, NID_commonName) ?? "",
            topics: named.isEmpty ? userID.map { [$0] } ?? [] : named,
            fingerprint: Self.fingerprint(leaf)
        )
    }

    private static func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64 {
        guard let time, let epoch = ASN1_TIME_set(nil, 0) else { return 0 }
        defer { ASN1_TIME_free(epoch) }
        var days: Int32 = 0
        var seconds: Int32 = 0
        guard ASN1_TIME_diff(&days, &seconds, epoch, time) == 1 else { return 0 }
        return Int64(days) * 86_400 + Int64(seconds)
    }

    private static func text(_ name: OpaquePointer?, _ id: Int32) -> String? {
        let position = X509_NAME_get_index_by_NID(name, id, -1)
        guard position >= 0, let entry = X509_NAME_get_entry(name, position) else { return nil }
        // Converts any kind of string. `X509_NAME_get_text_by_NID` would copy the bytes of UTF-16 unchanged.
        var text: UnsafeMutablePointer<UInt8>?
        let count = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(entry))
        // An empty name is allocated, too.
        defer { capns_free(text) }
        guard count > 0, let text else { return nil }
        return String(decoding: UnsafeBufferPointer(start: text, count: Int(count)), as: UTF8.self)
    }

    private static func fingerprint(_ certificate: X509Certificate) -> String {
        var digest = [UInt8](repeating: 0, count: 64)
        var count: UInt32 = 0
        guard X509_digest(certificate.pointer, EVP_sha256(), &digest, &count) == 1 else { return "" }
        return Hexadecimal.text(of: digest.prefix(Int(count)))
    }

    private static func extensionBytes(_ id: String, of certificate: X509Certificate) -> [UInt8]? {
        guard let object = OBJ_txt2obj(id, 1) else { return nil }
        defer { ASN1_OBJECT_free(object) }
        let position = X509_get_ext_by_OBJ(certificate.pointer, object, -1)
        guard position >= 0, let item = X509_get_ext(certificate.pointer, position),
            let data = X509_EXTENSION_get_data(item)
        else { return nil }
        return Self.bytes(of: data)
    }

    private static func bytes(of string: UnsafePointer<ASN1_STRING>) -> [UInt8] {
        Array(UnsafeBufferPointer(start: ASN1_STRING_get0_data(string), count: Int(ASN1_STRING_length(string))))
    }

    /// Reads the topics from Apple's extension: a sequence in which each topic (a UTF8String) is followed by a sequence
    /// of its kinds, such as app, voip or complication.
    static func topics(inExtension bytes: [UInt8]) -> [String] {
        // Bytes that are not a sequence leave errors in the queue.
        defer { OpenSSLErrors.clear() }
        guard let (sequence, _) = DER.read(bytes[...], { d2i_ASN1_SEQUENCE_ANY(nil, &$0, $1) }) else { return [] }
        defer { capns_sequence_free(sequence) }
        return (0..<capns_sequence_count(sequence)).compactMap { capns_sequence_utf8_string(sequence, $0) }
            .map { String(decoding: Self.bytes(of: $0), as: UTF8.self) }
    }
}

extension OpenSSLErrors {
    /// Whether OpenSSL 3 supports the algorithm only with its legacy provider, or not at all.
    var isUnsupported: Bool { self.text.contains("unsupported") }
}
