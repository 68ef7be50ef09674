import APNSBasics
import CAPNSOpenSSL

/// A certificate authority created at run time, for simulators and tests. Only clients that were given its root
/// certificate trust it.
package final class CertificateAuthority {
    /// A certificate chain and its private key, both as PEM text.
    package struct Identity: Sendable, Hashable {
        package var certificateChainPEM: String
        package var privateKeyPEM: String
    }

    private let key: EVPKey
    private let certificate: X509Certificate
    private var serial = 1

    /// The root certificate as PEM text. Clients use it as a trust root.
    package let certificatePEM: String

    package init(commonName: String = "Simulated APNs Root") throws(WireError) {
        let key = try Self.makeKey()
        let certificate = try Self.makeCertificate(
            commonName: commonName,
            key: key,
            serial: 1,
            validFrom: -86_400,
            validTo: 10 * 365 * 86_400
        )
        try Self.setIssuer(of: certificate, to: certificate)
        try Self.add(NID_basic_constraints, "critical,CA:TRUE", to: certificate)
        try Self.add(NID_key_usage, "critical,keyCertSign,cRLSign", to: certificate)
        // Without it, two roots with the same name cannot be distinguished (RFC 5280, section 4.2.1.1).
        try Self.add(NID_subject_key_identifier, "hash", to: certificate)
        try Self.sign(certificate, with: key)
        self.key = key
        self.certificate = certificate
        self.certificatePEM = PEM.text { PEM_write_bio_X509($0, certificate.pointer) }
    }

    /// Restores an authority that was created before.
    ///
    /// - Parameter saved: The identity that was read from its `certificatePEM` and `privateKeyPEM`.
    package init(_ saved: TLSIdentity) throws(WireError) {
        let chain = try PEM.certificates(in: saved.certificateChainPEM, code: .certificateUnusable)
        guard let certificate = chain.first,
            let key = PEM.privateKey(in: Array(saved.privateKeyPEM.utf8), passphrase: nil)
        else { throw Self.failure("the authority's key cannot be read") }
        self.key = key
        self.certificate = certificate
        self.certificatePEM = saved.certificateChainPEM
        // Each certificate of one authority needs a different number (RFC 5280, section 4.1.2.2).
        self.serial = Int.random(in: 1...Int(Int32.max))
    }

    /// The private key as PEM text. This is a secret: its holder can create certificates that this authority's clients
    /// trust.
    package var privateKeyPEM: String { Self.pem(of: self.key) }

    /// Issues a certificate for `names` (host names or IP addresses), for a server or a client. Without names, it is
    /// valid for no host: its subject is `localhost`, and it has no alternative names.
    ///
    /// - Parameters:
    ///   - names: The host names or IP addresses.
    ///   - validFrom, validTo: The validity period in seconds from now. Both may be negative, for an expired
    ///     certificate.
    package func issue(
        names: [String],
        validFrom: Int = -86_400,
        validTo: Int = 365 * 86_400
    ) throws(WireError) -> Identity {
        self.serial += 1
        let key = try Self.makeKey()
        let certificate = try Self.makeCertificate(
            commonName: names.first ?? "localhost",
            key: key,
            serial: self.serial,
            validFrom: validFrom,
            validTo: validTo
        )
        try Self.setIssuer(of: certificate, to: self.certificate)
        let alternatives = names.map { name in
            let isAddress = name.contains(":") || name.allSatisfy { $0.isNumber || $0 == "." }
            return "\(isAddress ? "IP" : "DNS"):\(name)"
        }
        if !names.isEmpty { try Self.add(NID_subject_alt_name, alternatives.joined(separator: ","), to: certificate) }
        try Self.add(NID_basic_constraints, "critical,CA:FALSE", to: certificate)
        try Self.add(NID_ext_key_usage, "serverAuth,clientAuth", to: certificate)
        try Self.add(NID_authority_key_identifier, "keyid:always", to: certificate, issuer: self.certificate)
        try Self.sign(certificate, with: self.key)
        return Identity(
            certificateChainPEM: PEM.text { PEM_write_bio_X509($0, certificate.pointer) },
            privateKeyPEM: Self.pem(of: key)
        )
    }

    /// Issues a client certificate in the form of Apple's: the first topic is the subject's UID. With more than one
    /// topic, the extension 1.2.840.113635.100.6.3.6 lists all of them.
    ///
    /// - Parameters:
    ///   - topics: The topics that it may push to: at least one, in printable ASCII.
    ///   - validFrom, validTo: The validity period in seconds from now. Both may be negative, for an expired
    ///     certificate.
    package func issueClient(
        topics: [String],
        validFrom: Int = -86_400,
        validTo: Int = 365 * 86_400
    ) throws(WireError) -> Identity {
        self.serial += 1
        let key = try Self.makeKey()
        let first = topics.first ?? "com.example.app"
        let certificate = try Self.makeCertificate(
            commonName: "Apple Push Services: \(first)",
            userID: first,
            key: key,
            serial: self.serial,
            validFrom: validFrom,
            validTo: validTo
        )
        try Self.setIssuer(of: certificate, to: self.certificate)
        try Self.add(NID_basic_constraints, "critical,CA:FALSE", to: certificate)
        try Self.add(NID_ext_key_usage, "clientAuth", to: certificate)
        try Self.add(NID_authority_key_identifier, "keyid:always", to: certificate, issuer: self.certificate)
        if topics.count > 1 { try Self.add(topics: topics, to: certificate) }
        try Self.sign(certificate, with: self.key)
        return Identity(
            certificateChainPEM: PEM.text { PEM_write_bio_X509($0, certificate.pointer) },
            privateKeyPEM: Self.pem(of: key)
        )
    }

    private static func add(topics: [String], to certificate: X509Certificate) throws(WireError) {
        func wrapped(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
            [tag, 0x82, UInt8(truncatingIfNeeded: content.count >> 8), UInt8(truncatingIfNeeded: content.count)]
                + content
        }
        let items = topics.flatMap { wrapped(0x0C, Array($0.utf8)) + wrapped(0x30, wrapped(0x0C, Array("app".utf8))) }
        let text = Hexadecimal.text(of: wrapped(0x30, items))
        guard let item = X509V3_EXT_nconf(nil, nil, "1.2.840.113635.100.6.3.6", "DER:" + text)
        else { throw self.failure("the list of topics is not valid") }
        try self.add(item, to: certificate)
    }

    private static func failure(_ what: String) -> WireError {
        WireError(.certificateUnusable, "\(what): \(OpenSSLErrors.drain().text)")
    }

    private static func pem(of key: EVPKey) -> String {
        PEM.text { PEM_write_bio_PrivateKey($0, key.pointer, nil, nil, 0, nil, nil) }
    }

    private static func makeKey() throws(WireError) -> EVPKey {
        OpenSSLErrors.clear()
        guard let key = capns_new_p256_key() else { throw self.failure("no P-256 key could be made") }
        return EVPKey(owning: key)
    }

    private static func makeCertificate(
        commonName: String,
        userID: String? = nil,
        key: EVPKey,
        serial: Int,
        validFrom: Int,
        validTo: Int
    ) throws(WireError) -> X509Certificate {
        OpenSSLErrors.clear()
        guard let pointer = X509_new() else { throw self.failure("no certificate could be made") }
        let certificate = X509Certificate(owning: pointer)
        guard X509_set_version(pointer, 2) == 1,  // X.509 version 3
            ASN1_INTEGER_set(X509_get_serialNumber(pointer), serial) == 1,
            X509_gmtime_adj(X509_getm_notBefore(pointer), validFrom) != nil,
            X509_gmtime_adj(X509_getm_notAfter(pointer), validTo) != nil,
            X509_set_pubkey(pointer, key.pointer) == 1
        else { throw self.failure("no certificate could be made") }
        if let userID { try self.add(userID, as: "UID", to: pointer) }
        // The longest common name that X.509 allows (RFC 5280, appendix A.1, ub-common-name).
        try self.add(String(commonName.prefix(64)), as: "CN", to: pointer)
        return certificate
    }

    private static func add(_ value: String, as field: String, to pointer: OpaquePointer) throws(WireError) {
        let text = Array(value.utf8)
        let added = X509_NAME_add_entry_by_txt(
            X509_get_subject_name(pointer),
            field,
            MBSTRING_FLAG,  // MBSTRING_UTF8
            text,
            Int32(clamping: text.count),
            -1,
            0
        )
        guard added == 1 else { throw self.failure("the name '\(value)' is not valid") }
    }

    private static func setIssuer(of certificate: X509Certificate, to issuer: X509Certificate) throws(WireError) {
        guard X509_set_issuer_name(certificate.pointer, X509_get_subject_name(issuer.pointer)) == 1 else {
            throw self.failure("the issuer could not be set")
        }
    }

    /// Takes over the reference to the extension.
    private static func add(_ item: OpaquePointer, to certificate: X509Certificate) throws(WireError) {
        defer { X509_EXTENSION_free(item) }
        guard X509_add_ext(certificate.pointer, item, -1) == 1 else {
            throw self.failure("an extension could not be added")
        }
    }

    /// Adds an extension.
    ///
    /// - Parameter issuer: The issuer that the extension refers to. `nil` means the certificate itself.
    private static func add(
        _ id: Int32,
        _ value: String,
        to certificate: X509Certificate,
        issuer: X509Certificate? = nil
    ) throws(WireError) {
        var context = X509V3_CTX()
        X509V3_set_ctx(&context, (issuer ?? certificate).pointer, certificate.pointer, nil, nil, 0)
        guard let item = X509V3_EXT_conf_nid(nil, &context, id, value) else {
            throw self.failure("the certificate extension '\(value)' is not valid")
        }
        try self.add(item, to: certificate)
    }

    private static func sign(_ certificate: X509Certificate, with key: EVPKey) throws(WireError) {
        guard X509_sign(certificate.pointer, key.pointer, EVP_sha256()) > 0 else {
            throw self.failure("the certificate could not be signed")
        }
    }
}
